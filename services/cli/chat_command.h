// `baton chat`: one question (-p) or a conversation, streamed, with a line of
// numbers after each answer. Ctrl-C ends a running answer, then the program.
#ifndef BATON_SERVICES_CLI_CHAT_COMMAND_H_
#define BATON_SERVICES_CLI_CHAT_COMMAND_H_

#include "services/cli/base/signals.h"

namespace baton::cli {

// Returns the exit code: 0, 1 (the server failed), 78 (options), 130 (ctrl-C).
int RunChat(int argc, const char* const* argv, Signals* signals);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CHAT_COMMAND_H_
