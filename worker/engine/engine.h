// The engine: one device thread that runs draft → plan → forward → sample →
// commit → emit over all sequences of the worker. Continuous batching: a step
// mixes one decode row of each running sequence with chunks of prompts, under
// max_batch_tokens. The plan is a pure function of a snapshot (planner.h).
//
// When blocks run out, the sequence that arrived last is preempted: it gives
// up its blocks, waits, and is computed again (strict numerics make that
// invisible in the output). Blocks still in the pool's index are taken from
// there, on admission and at each step of a prompt.
//
// Position contract: a token's KV rows are written when it is fed, so the last
// committed token of a sequence has none yet.
#ifndef BATON_WORKER_ENGINE_ENGINE_H_
#define BATON_WORKER_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvstore/block/block_key.h"
#include "services/base/clock.h"
#include "services/base/ids.h"
#include "services/telemetry/metrics.h"
#include "worker/cache/block_pool.h"
#include "worker/model/forward.h"
#include "worker/sampling/sampling_params.h"
#include "worker/speculation/drafter.h"

namespace baton::worker {

// A sequence to run. Tokens [0, restored_tokens) have their KV rows in
// `restored` already; the rest is computed.
struct SequenceSpec {
  RequestId request_id;
  std::vector<TokenId> tokens;  // prompt, then tokens already committed
  uint32_t prompt_tokens = 0;   // leading tokens that are the prompt
  SamplingParams sampling;
  StopConditions stop;
  // Stop after one new token (prefill role); the KV rows stay held until
  // OnFinished has returned.
  bool first_token_only = false;
  kvstore::BlockKey root_key;
  // Blocks of positions [0, restored_tokens); the last may be partial, then
  // this sequence is its only owner. At least one token is computed:
  // restored_tokens < tokens. May be given up and computed again when blocks
  // run out.
  std::vector<BlockRef> restored;
  uint32_t restored_tokens = 0;
  // Tokens drafted in a step at most, under the engine's own limit.
  uint32_t most_drafts = UINT32_MAX;
  // And by which of the engine's methods.
  DraftMethods draft_methods = DraftMethods::All();
};

struct CommittedToken {
  SampledToken sampled;
  uint32_t position = 0;
};

struct SequenceTimings {
  absl::Duration queue;    // submit to first row
  absl::Duration prefill;  // first row to first new token
  absl::Duration decode;   // first new token to last
  // Rows of spec.tokens computed here, each counted once; the others were
  // restored or in the pool's index.
  uint32_t computed_tokens = 0;
  uint32_t generated_tokens = 0;  // committed here
  uint32_t drafted_tokens = 0;    // that a step verified
  uint32_t accepted_tokens = 0;   // of those
};

// Called on the device thread; must neither block nor call the engine, except
// for Cancel. After OnFinished nothing more is called.
class SequenceObserver {
 public:
  virtual ~SequenceObserver() = default;
  // Rows of spec.tokens done so far (cached ones included), after each chunk.
  virtual void OnProgress(uint32_t processed, uint32_t total) = 0;
  // Block `index` of the sequence is full and its tokens are committed; it is
  // in the pool's index under `key` already. Once for each block that was not
  // whole in spec.restored, in order, also if it came out of the pool's index.
  virtual void OnBlockFull(uint32_t index, const kvstore::BlockKey& key,
                           const BlockRef& block) = 0;
  virtual void OnTokens(const std::vector<CommittedToken>& tokens) = 0;
  // A step has verified `drafted` tokens, of which `accepted` were right.
  // Before the OnTokens of that step.
  virtual void OnDrafts(uint32_t drafted, uint32_t accepted) {
    (void)drafted, (void)accepted;
  }
  // The end. `blocks` are the sequence's own, covering `kv_tokens` rows; the
  // observer may keep the handles. kNone: first_token_only, and the sequence
  // could go on. Not ok: kCancelled, kInternal, kResourceExhausted (longer
  // than the whole pool).
  virtual void OnFinished(const absl::StatusOr<FinishReason>& result,
                          const SequenceTimings& timings,
                          const std::vector<BlockRef>& blocks,
                          uint32_t kv_tokens) = 0;
};

struct EngineLoad {
  uint32_t running = 0;
  uint32_t waiting = 0;
};

// Thread-safe.
class Engine {
 public:
  struct Options {
    uint32_t max_batch_tokens = 512;  // rows of one step
    uint32_t max_sequences = 16;      // running at once
    uint32_t max_waiting = 256;
    // Prompt rows in a step that also has decode rows; bounds what a prompt
    // adds to the inter-token time of running streams.
    uint32_t max_prefill_tokens_beside_decode = 128;
    // Tokens drafted for a sequence in a step at most. 0, or no drafter: none.
    uint32_t most_drafts = 0;
    std::vector<TokenId> eos_tokens;
    std::string model_name;        // metrics label
    std::string kv_dtype = "f16";  // metrics label
  };

  // All pointers must outlive the engine; `drafter` may be null. Starts the
  // device thread.
  static std::unique_ptr<Engine> Create(const Options& options,
                                        Forward* forward, BlockPool* pool,
                                        const Clock* clock,
                                        telemetry::MetricsRegistry* metrics,
                                        Drafter* drafter = nullptr);
  virtual ~Engine() = default;

  // Errors: kInvalidArgument (no tokens, token out of range, no room left in
  // the context, more blocks than the pool has, parameters out of range,
  // nothing left of max_tokens, restored blocks that do not fit), with field
  // and reason where there is one; kResourceExhausted (queue full, with a
  // retry hint); kUnavailable (stopped).
  virtual absl::StatusOr<SequenceId> Submit(
      SequenceSpec spec, std::shared_ptr<SequenceObserver> observer) = 0;

  // Ends a sequence within one step with kCancelled. Idempotent; an unknown id
  // is no error.
  virtual void Cancel(SequenceId id) = 0;

  virtual EngineLoad Load() const = 0;

  // Cancels everything, joins the device thread. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ENGINE_ENGINE_H_
