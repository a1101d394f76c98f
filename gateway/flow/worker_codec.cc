#include "gateway/flow/worker_codec.h"

#include <utility>

namespace baton::gateway {
namespace {

void FillSampling(const Sampling& from, v1::SamplingParams* to) {
  if (from.temperature) to->set_temperature(*from.temperature);
  if (from.top_k) to->set_top_k(*from.top_k);
  if (from.top_p) to->set_top_p(*from.top_p);
  if (from.min_p) to->set_min_p(*from.min_p);
  if (from.repetition_penalty) {
    to->set_repetition_penalty(*from.repetition_penalty);
  }
  if (from.presence_penalty) to->set_presence_penalty(*from.presence_penalty);
  if (from.frequency_penalty) {
    to->set_frequency_penalty(*from.frequency_penalty);
  }
  for (const auto& [token, bias] : from.logit_bias) {
    v1::LogitBias* one = to->add_logit_bias();
    one->set_token_id(token);
    one->set_bias(bias);
  }
  if (from.seed) to->set_seed(*from.seed);
  to->set_logprobs(from.logprobs);
  if (from.logprobs) to->set_top_logprobs(from.top_logprobs);
}

void FillStop(const Limits& from, v1::StopConditions* to) {
  if (from.max_tokens) to->set_max_tokens(*from.max_tokens);
  to->mutable_stop_token_ids()->Add(from.stop_token_ids.begin(),
                                    from.stop_token_ids.end());
  to->set_ignore_eos(from.ignore_eos);
  to->set_min_tokens(from.min_tokens);
}

// Both requests name these fields alike.
template <typename Request>
void FillRequest(const WorkerRequest& from, Request* to) {
  const GenerationSpec& spec = *from.spec;
  to->set_request_id(spec.request_id.value());
  to->set_handoff_id(from.handoff_id.value());
  to->mutable_token_ids()->Add(spec.prompt.begin(), spec.prompt.end());
  FillSampling(spec.sampling, to->mutable_sampling());
  FillStop(spec.limits, to->mutable_stop());
  to->set_cache_salt(spec.cache_salt);
}

PositionedToken TokenFromProto(const v1::CommittedToken& from) {
  PositionedToken token;
  token.token.token = from.token_id();
  token.position = from.position();
  if (from.has_logprob()) token.token.logprob = from.logprob();
  for (const v1::TokenLogprob& top : from.top_logprobs()) {
    token.token.top_logprobs.emplace_back(top.token_id(), top.logprob());
  }
  return token;
}

PromptSources SourcesFromProto(const v1::PromptSources& from) {
  return {from.computed_tokens(), from.local_cache_tokens(),
          from.kv_store_tokens()};
}

std::optional<FinishReason> ReasonFromProto(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return FinishReason::kStop;
    case v1::FINISH_REASON_LENGTH:
      return FinishReason::kLength;
    case v1::FINISH_REASON_ABORTED:
      return FinishReason::kAborted;
    default:
      return std::nullopt;
  }
}

}  // namespace

v1::PrefillRequest PrefillToProto(const WorkerRequest& request) {
  v1::PrefillRequest proto;
  FillRequest(request, &proto);
  proto.set_layout_fingerprint(request.layout_fingerprint);
  return proto;
}

v1::DecodeRequest ReserveToProto(const WorkerRequest& request) {
  v1::DecodeRequest proto;
  FillRequest(request, proto.mutable_reserve());
  const Speculation& speculation = request.spec->speculation;
  v1::Speculation* out = proto.mutable_reserve()->mutable_speculation();
  if (speculation.mode.has_value()) out->set_mode(*speculation.mode);
  if (speculation.max.has_value()) out->set_max(*speculation.max);
  return proto;
}

absl::StatusOr<v1::DecodeRequest> StartToProto(
    const std::vector<TokenId>& committed,
    const std::optional<ManifestBytes>& manifest) {
  v1::DecodeRequest proto;
  v1::DecodeStart* start = proto.mutable_start();
  start->mutable_committed_token_ids()->Add(committed.begin(), committed.end());
  if (manifest.has_value() &&
      !start->mutable_manifest()->ParseFromString(*manifest)) {
    return absl::InvalidArgumentError("not a handoff manifest");
  }
  return proto;
}

std::optional<WorkerEvent> EventFromProto(const v1::PrefillEvent& event) {
  if (event.has_progress()) {
    return WorkerProgress{event.progress().processed_tokens(),
                          event.progress().total_tokens()};
  }
  if (event.has_first_token()) {
    const v1::FirstToken& first = event.first_token();
    return FirstTokenReady{TokenFromProto(first.token()),
                           ReasonFromProto(first.finish_reason()),
                           SourcesFromProto(first.sources()),
                           absl::Milliseconds(first.prefill_ms()),
                           absl::Milliseconds(first.queue_ms())};
  }
  if (event.has_manifest()) {
    return ManifestReady{event.manifest().SerializeAsString()};
  }
  return std::nullopt;
}

std::optional<WorkerEvent> EventFromProto(const v1::DecodeEvent& event) {
  if (event.has_reserved()) {
    return DecodeReservedEvent{Epoch(event.reserved().epoch()),
                               event.reserved().held_tokens(),
                               event.reserved().layout_fingerprint()};
  }
  if (event.has_progress()) {
    return WorkerProgress{event.progress().processed_tokens(),
                          event.progress().total_tokens()};
  }
  if (event.has_started()) {
    const v1::DecodeStarted& started = event.started();
    return DecodeStartedEvent{
        SourcesFromProto(started.sources()), started.handoff_bytes(),
        absl::Milliseconds(started.handoff_ms()), started.corrupt_blocks()};
  }
  if (event.has_tokens()) {
    DecodeTokensEvent tokens;
    tokens.drafted = event.tokens().drafted_tokens();
    tokens.accepted = event.tokens().accepted_tokens();
    for (const v1::CommittedToken& token : event.tokens().tokens()) {
      tokens.tokens.push_back(TokenFromProto(token));
    }
    return tokens;
  }
  if (event.has_finished()) {
    const v1::DecodeFinished& finished = event.finished();
    return DecodeFinishedEvent{
        ReasonFromProto(finished.reason()).value_or(FinishReason::kAborted),
        finished.generated_tokens(), absl::Milliseconds(finished.prefill_ms()),
        absl::Milliseconds(finished.queue_ms())};
  }
  return std::nullopt;
}

}  // namespace baton::gateway
