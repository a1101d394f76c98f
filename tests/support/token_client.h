// Blocking calls of CompletionService with token-id prompts, for end-to-end
// tests: everything that a byte gate compares, as plain values.
#ifndef BATON_TESTS_SUPPORT_TOKEN_CLIENT_H_
#define BATON_TESTS_SUPPORT_TOKEN_CLIENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "baton/v1/completion.grpc.pb.h"
#include "services/rpc/grpc_status.h"

namespace baton::testing_support {

struct TokenRequest {
  std::vector<int32_t> prompt;
  uint32_t max_tokens = 24;
  float temperature = 0;
  uint64_t seed = 42;
  float repetition_penalty = 1.0f;
  bool logprobs = false;
  bool ignore_eos = false;
  std::string speculation;  // mode; empty = the workers'
  absl::Duration deadline = absl::Seconds(60);
};

struct TokenAnswer {
  absl::Status status;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::string text;
  int finish_reason = 0;
  uint32_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  uint32_t computed = 0, local = 0, store = 0;
  uint32_t resumes = 0, corrupt_blocks = 0;
  uint32_t drafted = 0, accepted = 0;
  std::string prefill_worker, decode_worker;

  // What must be equal whatever the cluster did.
  std::string Essence() const {
    return absl::StrCat(status.ToString(), "|", absl::StrJoin(tokens, ","), "|",
                        absl::StrJoin(logprobs, ","), "|", text, "|",
                        finish_reason, "|", prompt_tokens, "|",
                        completion_tokens);
  }
};

inline v1::CompletionRequest ToProto(const TokenRequest& request) {
  v1::CompletionRequest proto;
  for (int32_t token : request.prompt) {
    proto.mutable_tokens()->add_ids(token);
  }
  proto.mutable_sampling()->set_temperature(request.temperature);
  proto.mutable_sampling()->set_seed(request.seed);
  if (request.repetition_penalty != 1.0f) {
    proto.mutable_sampling()->set_repetition_penalty(
        request.repetition_penalty);
  }
  proto.mutable_sampling()->set_logprobs(request.logprobs);
  if (!request.speculation.empty()) {
    proto.mutable_speculation()->set_mode(request.speculation);
  }
  proto.mutable_limits()->set_max_tokens(request.max_tokens);
  proto.mutable_limits()->set_ignore_eos(request.ignore_eos);
  return proto;
}

// Streams one completion; `on_token` is called with the count so far.
inline TokenAnswer Complete(
    v1::CompletionService::Stub* stub, const TokenRequest& request,
    const std::function<void(size_t)>& on_token = nullptr) {
  TokenAnswer answer;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + request.deadline));
  auto reader = stub->StreamCompletion(&context, ToProto(request));
  for (v1::GenerationEvent event; reader->Read(&event);) {
    if (event.has_delta()) {
      answer.text += event.delta().text();
      for (const auto& token : event.delta().tokens()) {
        answer.tokens.push_back(token.token_id());
        if (token.has_logprob()) answer.logprobs.push_back(token.logprob());
        if (on_token) on_token(answer.tokens.size());
      }
    } else if (event.has_end()) {
      const auto& end = event.end();
      answer.finish_reason = end.finish_reason();
      answer.prompt_tokens = end.usage().prompt_tokens();
      answer.cached_tokens = end.usage().cached_tokens();
      answer.completion_tokens = end.usage().completion_tokens();
      answer.computed = end.cluster().sources().computed_tokens();
      answer.local = end.cluster().sources().local_cache_tokens();
      answer.store = end.cluster().sources().kv_store_tokens();
      answer.drafted = end.timings().draft_n();
      answer.accepted = end.timings().draft_n_accepted();
      answer.resumes = end.cluster().resumes();
      answer.corrupt_blocks = end.cluster().corrupt_blocks();
      answer.prefill_worker = end.cluster().prefill_worker();
      answer.decode_worker = end.cluster().decode_worker();
    }
  }
  answer.status = rpc::FromGrpcStatus(reader->Finish());
  return answer;
}

// All at once, one thread each.
inline std::vector<TokenAnswer> CompleteAll(
    v1::CompletionService::Stub* stub,
    const std::vector<TokenRequest>& requests) {
  std::vector<TokenAnswer> answers(requests.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] { answers[i] = Complete(stub, requests[i]); });
  }
  threads.clear();
  return answers;
}

// `count` token ids in [first, first + span), a function of the seed alone.
inline std::vector<int32_t> RandomPrompt(uint64_t seed, uint32_t count,
                                         int32_t first = 300,
                                         int32_t span = 1700) {
  std::vector<int32_t> tokens(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
  for (int32_t& token : tokens) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    token = first +
            static_cast<int32_t>((state >> 11) % static_cast<uint64_t>(span));
  }
  return tokens;
}

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_TOKEN_CLIENT_H_
