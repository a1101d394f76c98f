#include "worker/prefill/prefill_run.h"

#include <utility>

#include "services/base/error_details.h"

namespace baton::worker {

std::shared_ptr<PrefillRun> PrefillRun::Start(AdmissionGate::Pass pass,
                                              PrefillSpec spec,
                                              PrefillSink* sink) {
  std::shared_ptr<PrefillRun> run(
      new PrefillRun(std::move(pass), std::move(spec), sink));
  if (!run->context_.imports->Post([run] { run->Restore(); })) {
    run->End(WithRetryAfter(
        absl::ResourceExhaustedError("too many prompts are waiting"),
        absl::Seconds(1)));
  }
  return run;
}

PrefillRun::PrefillRun(AdmissionGate::Pass pass, PrefillSpec spec,
                       PrefillSink* sink)
    : spec_(std::move(spec)),
      context_(pass.context()),
      sink_(sink),
      pass_(std::move(pass)) {}

void PrefillRun::Restore() {
  if (stop_.stop_requested()) return End(absl::CancelledError());
  RestoredPrefix prefix = context_.restorer->Restore(
      {spec_.handoff, spec_.prompt, spec_.root, /*want_lease=*/true},
      stop_.get_token());
  if (stop_.stop_requested()) return End(absl::CancelledError());
  store_tokens_ = prefix.store_tokens;
  if (prefix.lease != nullptr) StartPublisher(&prefix);
  Submit(std::move(prefix));
}

void PrefillRun::StartPublisher(RestoredPrefix* prefix) {
  const uint32_t block_tokens = context_.layout->block_tokens;
  BlockPublisher::Options options;
  options.handoff = spec_.handoff;
  // Every block of the prompt may wait: they are held by the sequence anyway.
  options.max_queued = spec_.prompt.size() / block_tokens + 1;
  options.shape = context_.shape;
  options.drafts = context_.drafts;
  auto publisher = BlockPublisher::Create(
      options, context_.store, context_.leases, context_.publishes,
      context_.metrics, std::move(prefix->lease), std::move(prefix->present));
  const std::vector<kvstore::BlockKey> keys =
      kvstore::BlockKeys(spec_.root, spec_.prompt, block_tokens);
  for (uint32_t i = 0; i < prefix->blocks.size(); ++i) {
    publisher->Add(i, keys[i], prefix->blocks[i]);
  }
  MutexLock lock(&mutex_);
  publisher_ = std::move(publisher);
}

void PrefillRun::Submit(RestoredPrefix prefix) {
  SequenceSpec sequence;
  sequence.request_id = spec_.request;
  sequence.tokens = spec_.prompt;
  sequence.prompt_tokens = static_cast<uint32_t>(spec_.prompt.size());
  sequence.sampling = spec_.sampling;
  sequence.stop = spec_.stop;
  sequence.first_token_only = true;
  sequence.root_key = spec_.root;
  sequence.restored = std::move(prefix.blocks);
  sequence.restored_tokens = prefix.tokens;
  auto id = context_.engine->Submit(std::move(sequence), shared_from_this());
  if (!id.ok()) return End(id.status());
  {
    MutexLock lock(&mutex_);
    sequence_ = *id;
  }
  // Cancel may have come before there was an id.
  if (stop_.stop_requested()) context_.engine->Cancel(*id);
}

void PrefillRun::Cancel() {
  stop_.request_stop();
  SequenceId sequence;
  {
    MutexLock lock(&mutex_);
    sequence = sequence_;
  }
  if (sequence) context_.engine->Cancel(sequence);
  if (auto publishing = publisher()) publishing->Stop();
}

std::shared_ptr<BlockPublisher> PrefillRun::publisher() {
  MutexLock lock(&mutex_);
  return publisher_;
}

void PrefillRun::OnProgress(uint32_t processed, uint32_t total) {
  sink_->OnProgress(processed, total);
}

void PrefillRun::OnBlockFull(uint32_t index, const kvstore::BlockKey& key,
                             const BlockRef& block) {
  if (auto publishing = publisher()) publishing->Add(index, key, block);
}

void PrefillRun::OnTokens(const std::vector<CommittedToken>& tokens) {
  // Whether it ends the request is known in OnFinished, in the same step.
  if (!first_.has_value() && !tokens.empty()) first_ = tokens.front();
}

void PrefillRun::OnFinished(const absl::StatusOr<FinishReason>& result,
                            const SequenceTimings& timings,
                            const std::vector<BlockRef>& blocks,
                            uint32_t kv_tokens) {
  if (!result.ok()) return End(result.status());
  if (!first_.has_value()) {
    return End(absl::InternalError("the prompt ended without a token"));
  }
  const PromptSources sources =
      PromptSources::Of(static_cast<uint32_t>(spec_.prompt.size()),
                        timings.computed_tokens, store_tokens_);
  context_.metrics->CountPrompt(sources);
  sink_->OnFirstToken(
      {*first_, *result, sources, timings.prefill, timings.queue});
  if (*result == FinishReason::kNone) return Publish(blocks, kv_tokens);
  // Nobody takes over; the full blocks are still worth having.
  if (auto publishing = publisher()) {
    publishing->Finish(0, std::nullopt, [](PublishedPrefix) {});
  }
  End(absl::OkStatus());
}

void PrefillRun::Publish(const std::vector<BlockRef>& blocks,
                         uint32_t kv_tokens) {
  auto publishing = publisher();
  if (publishing == nullptr) return OnPublished({});
  const uint32_t block_tokens = context_.layout->block_tokens;
  const uint32_t full = kv_tokens / block_tokens;
  std::optional<BlockPublisher::Tail> tail;
  if (const uint32_t rest = kv_tokens % block_tokens; rest > 0) {
    const std::span<const TokenId> prompt(spec_.prompt);
    const std::vector<kvstore::BlockKey> keys =
        kvstore::BlockKeys(spec_.root, prompt, block_tokens);
    const kvstore::BlockKey& parent = full == 0 ? spec_.root : keys[full - 1];
    tail = BlockPublisher::Tail{
        kvstore::NextKey(parent, prompt.subspan(full * block_tokens, rest)),
        blocks[full], rest};
  }
  publishing->Finish(full, std::move(tail),
                     [self = shared_from_this()](PublishedPrefix published) {
                       self->OnPublished(std::move(published));
                     });
}

void PrefillRun::OnPublished(PublishedPrefix published) {
  if (stop_.stop_requested()) return End(absl::CancelledError());
  HandoffManifest manifest;
  manifest.handoff = spec_.handoff;
  manifest.sender_epoch = context_.epoch;
  manifest.layout = *context_.layout;
  manifest.blocks = std::move(published.blocks);
  const auto prompt_tokens = static_cast<uint32_t>(spec_.prompt.size());
  manifest.position.committed_tokens = prompt_tokens + 1;
  for (const HandoffBlock& block : manifest.blocks) {
    manifest.position.kv_tokens += block.tokens;
  }
  manifest.position.pending_token = first_->sampled.token;
  manifest.position.pending_position = prompt_tokens;
  manifest.position.random_counter = prompt_tokens + 1;
  if (!manifest.blocks.empty() && published.lease != nullptr) {
    manifest.kvstore_address = context_.store->address();
    manifest.lease = published.lease->lease();
    MutexLock lock(&mutex_);
    handed_ = std::move(published.lease);
  }
  sink_->OnManifest(manifest);
  End(absl::OkStatus());
}

void PrefillRun::OnDelivered(bool delivered) {
  std::unique_ptr<HeldLease> lease;
  {
    MutexLock lock(&mutex_);
    lease = std::move(handed_);
  }
  if (lease == nullptr) return;
  delivered ? lease->HandOver() : lease->Release();
}

void PrefillRun::End(const absl::Status& status) {
  std::optional<AdmissionGate::Pass> pass;
  std::shared_ptr<BlockPublisher> publishing;
  {
    MutexLock lock(&mutex_);
    if (!pass_.has_value()) return;
    pass.emplace(std::move(*pass_));
    pass_.reset();
    publishing = std::move(publisher_);
  }
  if (publishing != nullptr && !status.ok()) publishing->Stop();
  publishing.reset();
  sink_->OnDone(status);
}

}  // namespace baton::worker
