#include "gateway/api/generation_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/rpc/grpc_status.h"

namespace baton::gateway {
namespace {

Sampling SamplingFromProto(const v1::SamplingParams& from) {
  Sampling to;
  if (from.has_temperature()) to.temperature = from.temperature();
  if (from.has_top_k()) to.top_k = from.top_k();
  if (from.has_top_p()) to.top_p = from.top_p();
  if (from.has_min_p()) to.min_p = from.min_p();
  if (from.has_repetition_penalty()) {
    to.repetition_penalty = from.repetition_penalty();
  }
  if (from.has_presence_penalty()) {
    to.presence_penalty = from.presence_penalty();
  }
  if (from.has_frequency_penalty()) {
    to.frequency_penalty = from.frequency_penalty();
  }
  for (const v1::LogitBias& bias : from.logit_bias()) {
    to.logit_bias.emplace_back(bias.token_id(), bias.bias());
  }
  if (from.has_seed()) to.seed = from.seed();
  to.logprobs = from.logprobs();
  to.top_logprobs = from.top_logprobs();
  return to;
}

Limits LimitsFromProto(const v1::GenerationLimits& from) {
  Limits to;
  if (from.has_max_tokens()) to.max_tokens = from.max_tokens();
  to.min_tokens = from.min_tokens();
  to.stop.assign(from.stop().begin(), from.stop().end());
  to.stop_token_ids.assign(from.stop_token_ids().begin(),
                           from.stop_token_ids().end());
  to.ignore_eos = from.ignore_eos();
  return to;
}

// Both requests name these fields alike.
template <typename Request>
GenerationParameters ParametersFromProto(const Request& request,
                                         GenerationParameters call) {
  call.model = request.model();
  call.sampling = SamplingFromProto(request.sampling());
  call.limits = LimitsFromProto(request.limits());
  const v1::Speculation& speculation = request.speculation();
  if (speculation.has_mode()) call.speculation.mode = speculation.mode();
  if (speculation.has_max()) call.speculation.max = speculation.max();
  call.cache_salt = request.cache_salt();
  call.names = ProtoFieldNames();
  return call;
}

v1::FinishReason ReasonToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

}  // namespace

FieldNames ProtoFieldNames() {
  FieldNames names;
  names.template_kwargs = "chat_template_kwargs_json";
  return names;
}

GenerationParameters CallParameters(const grpc::ServerContextBase& context,
                                    const Clock& clock) {
  GenerationParameters call;
  call.arrival = clock.Monotonic();
  const auto& metadata = context.client_metadata();
  if (auto it = metadata.find("x-request-id"); it != metadata.end()) {
    call.request_id = std::string(it->second.data(), it->second.size());
  }
  const auto deadline = context.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    call.timeout = absl::FromChrono(deadline) - absl::Now();
  }
  return call;
}

std::vector<text::ChatTurn> TurnsFromProto(
    const google::protobuf::RepeatedPtrField<v1::ChatMessage>& messages) {
  std::vector<text::ChatTurn> turns;
  for (const v1::ChatMessage& message : messages) {
    turns.push_back({message.role(), message.content(), message.name(), ""});
  }
  return turns;
}

ChatInput ChatFromProto(const v1::ChatRequest& request,
                        GenerationParameters call) {
  return {TurnsFromProto(request.messages()),
          request.chat_template_kwargs_json(),
          ParametersFromProto(request, std::move(call))};
}

absl::StatusOr<CompletionInput> CompletionFromProto(
    const v1::CompletionRequest& request, GenerationParameters call) {
  CompletionInput input;
  input.parameters = ParametersFromProto(request, std::move(call));
  switch (request.prompt_case()) {
    case v1::CompletionRequest::kText:
      input.prompt = request.text();
      return input;
    case v1::CompletionRequest::kTokens:
      input.prompt = std::vector<TokenId>(request.tokens().ids().begin(),
                                          request.tokens().ids().end());
      return input;
    default:
      return WithField(
          WithReason(absl::InvalidArgumentError("text or tokens must be set"),
                     "invalid_value"),
          "prompt");
  }
}

void AppendTokens(const std::vector<EmittedToken>& tokens, uint32_t position,
                  google::protobuf::RepeatedPtrField<v1::CommittedToken>* out) {
  for (const EmittedToken& token : tokens) {
    v1::CommittedToken* one = out->Add();
    one->set_token_id(token.token);
    one->set_position(position++);
    if (token.logprob.has_value()) one->set_logprob(*token.logprob);
    for (const auto& [id, logprob] : token.top_logprobs) {
      v1::TokenLogprob* top = one->add_top_logprobs();
      top->set_token_id(id);
      top->set_logprob(logprob);
    }
  }
}

v1::GenerationEnd EndToProto(const GenerationReport& report) {
  v1::GenerationEnd end;
  const uint32_t cached = report.sources.local_cache + report.sources.kv_store;
  end.set_finish_reason(ReasonToProto(report.finish_reason));
  v1::Usage* usage = end.mutable_usage();
  usage->set_prompt_tokens(report.prompt_tokens);
  usage->set_cached_tokens(cached);
  usage->set_completion_tokens(report.completion_tokens);
  v1::Timings* timings = end.mutable_timings();
  timings->set_cache_n(cached);
  timings->set_prompt_n(report.sources.computed);
  timings->set_prompt_ms(absl::ToDoubleMilliseconds(report.prefill));
  timings->set_predicted_n(report.completion_tokens);
  timings->set_predicted_ms(absl::ToDoubleMilliseconds(report.decode));
  timings->set_queue_ms(absl::ToDoubleMilliseconds(report.queue));
  timings->set_ttft_ms(absl::ToDoubleMilliseconds(report.time_to_first_token));
  timings->set_handoff_ms(absl::ToDoubleMilliseconds(report.handoff));
  timings->set_handoff_bytes(report.handoff_bytes);
  timings->set_draft_n(report.drafted_tokens);
  timings->set_draft_n_accepted(report.accepted_tokens);
  v1::ClusterReport* cluster = end.mutable_cluster();
  cluster->set_prefill_worker(report.prefill_worker);
  cluster->set_decode_worker(report.decode_worker);
  cluster->mutable_sources()->set_computed_tokens(report.sources.computed);
  cluster->mutable_sources()->set_local_cache_tokens(
      report.sources.local_cache);
  cluster->mutable_sources()->set_kv_store_tokens(report.sources.kv_store);
  cluster->set_resumes(report.resumes);
  cluster->set_route_reason(report.route_reason);
  cluster->set_corrupt_blocks(report.corrupt_blocks);
  return end;
}

v1::ModelInfo ModelToProto(const ServedModel& model) {
  v1::ModelInfo info;
  info.set_name(model.name);
  info.set_architecture(model.architecture);
  info.set_context_length(model.context_length);
  info.set_vocabulary_size(model.tokenizer->vocabulary_size());
  for (TokenId token : model.tokenizer->end_tokens()) {
    info.add_eos_token_ids(token);
  }
  info.set_model_digest(model.digest);
  info.set_parameters(model.parameters);
  info.set_file_bytes(model.file_bytes);
  info.set_file_type(model.file_type);
  return info;
}

grpc::Status ToClientStatus(const absl::Status& status,
                            grpc::ServerContextBase* context) {
  if (status.ok()) return grpc::Status::OK;
  const std::string reason = ErrorReason(status);
  const std::string field = ErrorField(status);
  if (!reason.empty()) context->AddTrailingMetadata("baton-reason", reason);
  if (!field.empty()) context->AddTrailingMetadata("baton-field", field);
  if (auto delay = RetryAfter(status)) {
    context->AddTrailingMetadata(
        "retry-after-ms", absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
  return rpc::ToGrpcStatus(status);
}

}  // namespace baton::gateway
