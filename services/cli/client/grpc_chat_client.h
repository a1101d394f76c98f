// Chat over gRPC (baton.v1.ChatService). Edge code.
#ifndef BATON_SERVICES_CLI_CLIENT_GRPC_CHAT_CLIENT_H_
#define BATON_SERVICES_CLI_CLIENT_GRPC_CHAT_CLIENT_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "services/cli/client/answer.h"

namespace baton::cli {

// `timeout`: deadline of each answer.
std::unique_ptr<ChatSource> MakeGrpcChatClient(const std::string& address,
                                               absl::Duration timeout);

// How many tokens `text` is, by the server's tokenizer.
absl::StatusOr<uint32_t> CountTokens(const std::string& address,
                                     const std::string& text);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLIENT_GRPC_CHAT_CLIENT_H_
