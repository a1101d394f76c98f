#include "worker/decode/decode_run.h"

#include <algorithm>
#include <utility>

#include "services/base/checked_math.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

// Blocks of a long prompt fill faster than they are published; of an answer
// far slower. What waits is held by the sequence anyway.
size_t PublishQueue(size_t prompt_tokens, uint32_t block_tokens) {
  return prompt_tokens / block_tokens + 16;
}

bool Contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

absl::StatusOr<std::shared_ptr<DecodeRun>> DecodeRun::Reserve(
    AdmissionGate::Pass pass, DecodeSpec spec, ReservationTable* table,
    DecodeSink* sink) {
  std::shared_ptr<DecodeRun> run(
      new DecodeRun(std::move(pass), std::move(spec), table, sink));
  BlockPool* pool = run->context_.pool;
  const uint32_t block_tokens = pool->block_tokens();
  // One row more than the prompt: the first token's.
  const auto blocks = static_cast<uint32_t>(
      DivideUp(uint64_t{run->prompt_tokens()} + 1, block_tokens));
  std::vector<BlockRef> held = pool->Match(
      kvstore::BlockKeys(run->spec_.root, run->spec_.prompt, block_tokens));
  BATON_ASSIGN_OR_RETURN(
      run->reservation_,
      table->TryReserve(
          blocks - static_cast<uint32_t>(held.size()), pool->Stats(),
          [weak = run->weak_from_this()] {
            if (auto alive = weak.lock()) {
              alive->Cancel(absl::AbortedError("the reservation has expired"));
            }
          }));
  // What it could start from: a prompt held whole still has its last token's
  // logits to be computed, and that is the prefill worker's work.
  run->held_tokens_ =
      std::min(static_cast<uint32_t>(held.size()) * block_tokens,
               kvstore::ReusableTokens(run->prompt_tokens(), block_tokens));
  MutexLock lock(&run->mutex_);
  run->held_ = std::move(held);
  return run;
}

DecodeRun::DecodeRun(AdmissionGate::Pass pass, DecodeSpec spec,
                     ReservationTable* table, DecodeSink* sink)
    : spec_(std::move(spec)),
      context_(pass.context()),
      table_(table),
      sink_(sink),
      pass_(std::move(pass)) {}

void DecodeRun::Start(std::vector<TokenId> committed,
                      std::optional<HandoffManifest> manifest) {
  bool first = false;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kEnded) return;
    first = phase_ == Phase::kReserved;
    if (first) phase_ = Phase::kStarting;
  }
  if (!first) {
    return Cancel(absl::InvalidArgumentError("the stream was started before"));
  }
  // From here on only this run's own tasks end it.
  if (!table_->Start(reservation_)) {
    return End(absl::AbortedError("the reservation has expired"));
  }
  tokens_ = spec_.prompt;
  tokens_.insert(tokens_.end(), committed.begin(), committed.end());
  counts_prompt_ = committed.empty() && !manifest.has_value();
  if (!context_.imports->Post(
          [self = shared_from_this(), manifest = std::move(manifest)] {
            self->Prepare(manifest);
          })) {
    End(WithRetryAfter(
        absl::ResourceExhaustedError("too many imports are waiting"),
        absl::Seconds(1)));
  }
}

void DecodeRun::Prepare(const std::optional<HandoffManifest>& manifest) {
  if (stop_.stop_requested()) {
    if (manifest.has_value()) context_.importer->Discard(*manifest);
    return End(absl::CancelledError());
  }
  if (const FinishReason reason = FinishedAlready();
      reason != FinishReason::kNone) {
    if (manifest.has_value()) context_.importer->Discard(*manifest);
    sink_->OnStarted({PromptSources::Of(prompt_tokens(), 0, 0)});
    sink_->OnFinished({reason, {}});
    return End(absl::OkStatus());
  }
  const absl::Duration begin = context_.clock->Monotonic();
  auto prefix = ObtainPrefix(manifest);
  if (!prefix.ok()) return End(prefix.status());
  if (stop_.stop_requested()) return End(absl::CancelledError());
  store_tokens_ = std::min(prefix->store_tokens, prompt_tokens());
  const uint32_t restored = std::min(prefix->tokens, prompt_tokens());
  StartedReport report;
  report.sources = PromptSources::Of(prompt_tokens(),
                                     prompt_tokens() - restored, store_tokens_);
  report.handoff_bytes = prefix->store_bytes;
  report.handoff = context_.clock->Monotonic() - begin;
  report.corrupt_blocks = prefix->corrupt_blocks;
  sink_->OnStarted(report);
  if (context_.store != nullptr) StartPublisher(&*prefix);
  Submit(*std::move(prefix));
}

absl::StatusOr<RestoredPrefix> DecodeRun::ObtainPrefix(
    const std::optional<HandoffManifest>& manifest) {
  if (!manifest.has_value()) {
    return context_.restorer->Restore({own_lease_name(), tokens_, spec_.root},
                                      stop_.get_token());
  }
  BATON_ASSIGN_OR_RETURN(
      ImportedPrefix imported,
      context_.importer->Import(*manifest, tokens_, spec_.root,
                                stop_.get_token()));
  RestoredPrefix prefix;
  prefix.blocks = std::move(imported.blocks);
  prefix.tokens = imported.tokens;
  prefix.local_tokens = imported.local_tokens;
  prefix.store_tokens = imported.store_tokens;
  prefix.store_bytes = imported.store_bytes;
  prefix.corrupt_blocks = imported.corrupt_blocks;
  return prefix;
}

FinishReason DecodeRun::FinishedAlready() const {
  const size_t committed = tokens_.size() - spec_.prompt.size();
  if (committed == 0) return FinishReason::kNone;
  const TokenId last = tokens_.back();
  if (Contains(spec_.stop.stop_token_ids, last) ||
      (!spec_.stop.ignore_eos && Contains(context_.model->end_tokens, last))) {
    return FinishReason::kStop;
  }
  return committed >= *spec_.stop.max_tokens ? FinishReason::kLength
                                             : FinishReason::kNone;
}

void DecodeRun::StartPublisher(RestoredPrefix* prefix) {
  BlockPublisher::Options options;
  options.handoff = own_lease_name();
  options.max_queued =
      PublishQueue(spec_.prompt.size(), context_.layout->block_tokens);
  options.shape = context_.shape;
  options.drafts = context_.drafts;
  auto publishing = BlockPublisher::Create(
      options, context_.store, context_.leases, context_.publishes,
      context_.metrics, std::move(prefix->lease), std::move(prefix->present));
  MutexLock lock(&mutex_);
  publisher_ = std::move(publishing);
}

void DecodeRun::Submit(RestoredPrefix prefix) {
  SequenceSpec sequence;
  sequence.request_id = spec_.request;
  sequence.tokens = tokens_;
  sequence.prompt_tokens = prompt_tokens();
  sequence.sampling = spec_.sampling;
  sequence.stop = spec_.stop;
  sequence.root_key = spec_.root;
  sequence.draft_methods = spec_.draft_methods;
  sequence.most_drafts = spec_.most_drafts;
  sequence.restored = std::move(prefix.blocks);
  sequence.restored_tokens = prefix.tokens;
  std::vector<BlockRef> held;
  {
    MutexLock lock(&mutex_);
    phase_ = Phase::kRunning;
    held.swap(held_);  // the sequence has its own handles from here on
  }
  held.clear();
  auto id = context_.engine->Submit(std::move(sequence), shared_from_this());
  if (!id.ok()) return End(id.status());
  {
    MutexLock lock(&mutex_);
    sequence_ = *id;
  }
  // Cancel may have come before there was an id.
  if (stop_.stop_requested()) context_.engine->Cancel(*id);
}

void DecodeRun::Cancel(const absl::Status& cause) {
  SequenceId sequence;
  bool idle = false;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kEnded) return;
    if (cause_.ok()) cause_ = cause;
    sequence = sequence_;
    idle = phase_ == Phase::kReserved;
  }
  stop_.request_stop();
  if (sequence) context_.engine->Cancel(sequence);
  // Nothing else runs that would end it.
  if (idle) End(cause);
}

void DecodeRun::OnCallerFinished() {
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kReserved) return;
  }
  Cancel(absl::CancelledError("the caller left before the start"));
}

std::shared_ptr<BlockPublisher> DecodeRun::publisher() {
  MutexLock lock(&mutex_);
  return publisher_;
}

void DecodeRun::OnProgress(uint32_t processed, uint32_t total) {
  sink_->OnProgress(processed, total);
}

void DecodeRun::OnBlockFull(uint32_t index, const kvstore::BlockKey& key,
                            const BlockRef& block) {
  if (auto publishing = publisher()) publishing->Add(index, key, block);
}

void DecodeRun::OnTokens(const std::vector<CommittedToken>& tokens) {
  sink_->OnTokens(tokens, std::exchange(drafts_, {}));
}

void DecodeRun::OnDrafts(uint32_t drafted, uint32_t accepted) {
  drafts_.drafted += drafted;
  drafts_.accepted += accepted;
}

void DecodeRun::OnFinished(const absl::StatusOr<FinishReason>& result,
                           const SequenceTimings& timings,
                           const std::vector<BlockRef>& blocks,
                           uint32_t kv_tokens) {
  if (counts_prompt_ && timings.generated_tokens > 0) {
    context_.metrics->CountPrompt(PromptSources::Of(
        prompt_tokens(), timings.computed_tokens, store_tokens_));
  }
  if (!result.ok()) return End(result.status());
  if (auto publishing = publisher()) {
    // What is queued is still published; then the lease goes.
    publishing->Finish(0, std::nullopt, [](PublishedPrefix) {});
  }
  sink_->OnFinished({*result, timings});
  End(absl::OkStatus());
}

absl::Status DecodeRun::CauseOr(const absl::Status& status) {
  MutexLock lock(&mutex_);
  return status.ok() || cause_.ok() ? status : cause_;
}

void DecodeRun::End(const absl::Status& status) {
  const absl::Status reported = CauseOr(status);
  std::optional<AdmissionGate::Pass> pass;
  std::shared_ptr<BlockPublisher> publishing;
  std::vector<BlockRef> held;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kEnded) return;
    phase_ = Phase::kEnded;
    if (pass_.has_value()) pass.emplace(std::move(*pass_));
    pass_.reset();
    publishing = std::move(publisher_);
    held.swap(held_);
  }
  if (publishing != nullptr && !status.ok()) publishing->Stop();
  publishing.reset();
  held.clear();
  // Freed before the caller hears of the end: it may reserve again at once.
  table_->End(reservation_);
  sink_->OnDone(reported);
}

}  // namespace baton::worker
