// What the requests of one worker share, once its model is there. Made by
// main (and by tests), handed out by the AdmissionGate; immutable, and every
// object it points to is thread-safe and outlives all requests.
#ifndef BATON_WORKER_HANDOFF_WORKER_CONTEXT_H_
#define BATON_WORKER_HANDOFF_WORKER_CONTEXT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kvstore/block/kv_layout.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/ids.h"
#include "worker/cache/block_pool.h"
#include "worker/engine/engine.h"
#include "worker/handoff/block_packing.h"
#include "worker/handoff/handoff_importer.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/handoff/lease_book.h"
#include "worker/handoff/prefix_restorer.h"
#include "worker/model/model.h"

namespace baton::worker {

struct WorkerContext {
  Engine* engine = nullptr;
  BlockPool* pool = nullptr;
  const Clock* clock = nullptr;
  // Null, both, if this worker has no store.
  kvstore::KvStoreClient* store = nullptr;
  LeaseBook* leases = nullptr;
  // Restoring and importing block here; publishing there, so that a slow
  // store delays no handoff that waits for a thread.
  Executor* imports = nullptr;
  Executor* publishes = nullptr;
  const PrefixRestorer* restorer = nullptr;
  const HandoffImporter* importer = nullptr;
  const HandoffMetrics* metrics = nullptr;

  const ModelDescription* model = nullptr;
  absl::string_view header_bytes;  // of the GGUF file
  const kvstore::KvLayout* layout = nullptr;
  kvstore::Digest fingerprint;  // layout->Fingerprint()
  BlockShape shape;             // of the layout's one target group
  DraftShape drafts;            // of its draft groups
  Epoch epoch;                  // of this process
  // What this worker can hold: the model's context, or less.
  uint32_t context_length = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_WORKER_CONTEXT_H_
