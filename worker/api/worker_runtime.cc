#include "worker/api/worker_runtime.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "worker/speculation/adaptive_drafter.h"
#include "worker/speculation/drafter_chain.h"
#include "worker/speculation/mtp_drafter.h"
#include "worker/speculation/ngram_drafter.h"

namespace baton::worker {
namespace {

constexpr size_t kMaxQueuedTasks = 4096;

std::unique_ptr<ThreadPoolExecutor> Threads(size_t threads) {
  return std::make_unique<ThreadPoolExecutor>(
      ThreadPoolExecutor::Options{threads, kMaxQueuedTasks});
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerRuntime>> WorkerRuntime::Create(
    const Options& options, const Model* model, kvstore::KvStoreClient* store,
    const Clock* clock, telemetry::MetricsRegistry* metrics) {
  std::unique_ptr<WorkerRuntime> runtime(
      new WorkerRuntime(options, model, clock));
  BATON_RETURN_IF_ERROR(runtime->BuildEngine(metrics));
  BATON_RETURN_IF_ERROR(runtime->BuildHandoff(store, metrics));
  return runtime;
}

WorkerRuntime::WorkerRuntime(const Options& options, const Model* model,
                             const Clock* clock)
    : options_(options), model_(model), clock_(clock) {
  heartbeats_ = Threads(2);
  publishes_ = Threads(2);
  fetchers_ = Threads(3);
  imports_ = Threads(8);
}

WorkerRuntime::~WorkerRuntime() { Stop(); }

void WorkerRuntime::Stop() {
  if (engine_ != nullptr) engine_->Stop();
  // In this order: the last tasks of each may post to those after it.
  for (auto* executor : {&imports_, &fetchers_, &publishes_, &heartbeats_}) {
    executor->reset();
  }
}

absl::Status WorkerRuntime::BuildEngine(telemetry::MetricsRegistry* metrics) {
  const kvstore::KvLayout& layout = model_->layout();
  BATON_ASSIGN_OR_RETURN(context_.shape,
                         BlockShape::Of(layout.groups[0], layout.block_tokens));
  BATON_ASSIGN_OR_RETURN(context_.drafts, DraftShape::Of(layout));
  BlockPool::Options pool;
  pool.block_bytes = layout.TargetBytes();
  pool.draft_bytes = layout.DraftBytes();
  pool.block_tokens = layout.block_tokens;
  const uint64_t stride = pool.block_bytes + pool.draft_bytes;
  pool.blocks = static_cast<uint32_t>(
      std::min<uint64_t>(options_.kv_memory_bytes / stride, UINT32_MAX));
  if (pool.blocks < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "KV memory of ", options_.kv_memory_bytes, " bytes: a block has ",
        stride, ", and at least two are needed"));
  }
  BATON_ASSIGN_OR_RETURN(pool_, BlockPool::Create(pool));
  BATON_ASSIGN_OR_RETURN(forward_,
                         model_->CreateForward(pool_.get(), options_.threads));
  BATON_RETURN_IF_ERROR(WarmUp());
  const ModelDescription& model = model_->description();
  Engine::Options engine;
  engine.max_batch_tokens = options_.max_batch_tokens;
  engine.max_sequences = options_.max_sequences;
  engine.eos_tokens = model.end_tokens;
  engine.model_name = model.name;
  engine.kv_dtype = layout.groups[0].dtype;
  drafter_ = MakeDrafter();
  engine.most_drafts = options_.most_drafts;
  engine_ = Engine::Create(engine, forward_.get(), pool_.get(), clock_, metrics,
                           drafter_.get());
  // No sequence may outgrow the pool: it could not even run alone.
  const uint64_t asked = options_.context_length == 0 ? model.context_length
                                                      : options_.context_length;
  context_.context_length = static_cast<uint32_t>(
      std::min({asked, uint64_t{model.context_length},
                uint64_t{pool.blocks} * pool.block_tokens}));
  return absl::OkStatus();
}

std::unique_ptr<Drafter> WorkerRuntime::MakeDrafter() const {
  std::unique_ptr<Drafter> ngram, block;
  if (options_.draft_methods.Has(DraftMethod::kNgram)) {
    ngram = std::make_unique<NgramDrafter>();
  }
  if (options_.draft_methods.Has(DraftMethod::kMtp) && forward_->drafts()) {
    MtpDrafter::Options mtp;
    mtp.least_probability = options_.least_draft_probability;
    mtp.block_tokens = pool_->block_tokens();
    block = std::make_unique<MtpDrafter>(mtp, forward_.get());
  }
  if (ngram == nullptr && block == nullptr) return nullptr;
  if (options_.adaptive_drafts) {
    return std::make_unique<AdaptiveDrafter>(std::move(ngram), std::move(block),
                                             clock_);
  }
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (std::unique_ptr<Drafter>* drafter : {&ngram, &block}) {
    if (*drafter != nullptr) drafters.push_back(std::move(*drafter));
  }
  return std::make_unique<DrafterChain>(std::move(drafters));
}

// The first pass pays for page faults and graph building; no client should.
absl::Status WorkerRuntime::WarmUp() {
  BATON_ASSIGN_OR_RETURN(std::vector<BlockRef> block, pool_->TryAllocate(1));
  const TokenId token = 0;
  const uint32_t index = block[0].index();
  SequenceRows rows;
  rows.tokens = {&token, 1};
  rows.block_table = {&index, 1};
  rows.logit_rows = 1;
  return forward_->Run(StepBatch{{rows}}).status();
}

absl::Status WorkerRuntime::BuildHandoff(kvstore::KvStoreClient* store,
                                         telemetry::MetricsRegistry* metrics) {
  handoff_metrics_ =
      std::make_unique<HandoffMetrics>(metrics, model_->description().name);
  if (store != nullptr) {
    store_ =
        std::make_unique<GuardedStore>(store, clock_, options_.store_pause);
    leases_ =
        std::make_unique<LeaseBook>(LeaseBook::Options{options_.lease_ttl},
                                    store_.get(), heartbeats_.get());
  }
  restorer_ = std::make_unique<PrefixRestorer>(
      pool_.get(), store_.get(), leases_.get(), fetchers_.get(),
      handoff_metrics_.get(), context_.drafts);
  BATON_ASSIGN_OR_RETURN(
      importer_, HandoffImporter::Create(
                     pool_.get(), store_.get(), leases_.get(), fetchers_.get(),
                     &model_->layout(), handoff_metrics_.get()));
  context_.engine = engine_.get();
  context_.pool = pool_.get();
  context_.clock = clock_;
  context_.store = store_.get();
  context_.leases = leases_.get();
  context_.imports = imports_.get();
  context_.publishes = publishes_.get();
  context_.restorer = restorer_.get();
  context_.importer = importer_.get();
  context_.metrics = handoff_metrics_.get();
  context_.model = &model_->description();
  context_.header_bytes = model_->header_bytes();
  context_.layout = &model_->layout();
  context_.fingerprint = model_->layout().Fingerprint();
  context_.epoch = options_.epoch;
  return absl::OkStatus();
}

}  // namespace baton::worker
