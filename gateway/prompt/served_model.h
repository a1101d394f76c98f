// Makes the model's text side from a GGUF header, and keeps the one that the
// cluster serves.
#ifndef BATON_GATEWAY_PROMPT_SERVED_MODEL_H_
#define BATON_GATEWAY_PROMPT_SERVED_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gateway/prompt/request_builder.h"
#include "gateway/registry/worker_probe.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/mutex.h"
#include "services/gguf/gguf_header.h"

namespace baton::gateway {

// Fetches a worker's GGUF header. The gRPC implementation is header_client.h.
// Thread-safe.
class HeaderSource {
 public:
  virtual ~HeaderSource() = default;
  // Calls `done` once, on any thread, with the header's bytes.
  virtual void Fetch(const std::string& address,
                     std::function<void(absl::StatusOr<std::string>)> done) = 0;
};

// Everything of ServedModel that the header gives: tokenizer, chat template,
// architecture, context length, parameter count. A template that cannot be
// used is left out, with a log line: plain completion still works. Errors:
// those of Tokenizer::Create; kInvalidArgument (no architecture or context).
absl::StatusOr<ServedModel> BuildServedModel(const gguf::GgufHeader& header);

// Thread-safe.
class ModelTracker final : public ModelSource,
                           public std::enable_shared_from_this<ModelTracker> {
 public:
  struct Options {
    // Names that clients may use; the first is the one they see. Empty: the
    // name that the worker reports.
    std::vector<std::string> served_names;
  };
  // Called, on the executor, each time the served model changes.
  using Observer = std::function<void(const ServedModel&)>;

  // Pointers must outlive the tracker's last task.
  static std::shared_ptr<ModelTracker> Create(const Options& options,
                                              HeaderSource* headers,
                                              Executor* executor,
                                              const Clock* clock,
                                              Observer observer);

  // Reads a local file, so that the text side is there before any worker is.
  // The workers' own header replaces it if its digest differs.
  absl::Status LoadFile(const std::string& path);

  // Facts of a worker of the cluster. Fetches the header if its digest is not
  // the current model's; a failed fetch is tried again with the next facts, a
  // header that cannot be used is not: then there is no model, and Problem says
  // why.
  void OnFacts(const std::string& address, const WorkerFacts& facts);

  std::shared_ptr<const ServedModel> Current() const override;
  absl::Status Problem() const override;

 private:
  ModelTracker(const Options& options, HeaderSource* headers,
               Executor* executor, const Clock* clock, Observer observer);
  void OnHeader(const WorkerFacts& facts,
                const absl::StatusOr<std::string>& bytes);
  absl::Status Adopt(const WorkerFacts& facts, const std::string& bytes);
  void Refuse(const WorkerFacts& facts, const absl::Status& problem);
  void Publish(ServedModel model, const WorkerFacts& facts);

  const Options options_;
  HeaderSource* const headers_;
  Executor* const executor_;
  const Clock* const clock_;
  const Observer observer_;

  mutable Mutex mutex_;
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;
  std::string header_digest_ ABSL_GUARDED_BY(mutex_);  // of current_
  // Of the header that was refused last; empty: none since current_ came.
  std::string refused_digest_ ABSL_GUARDED_BY(mutex_);
  absl::Status problem_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ServedModel> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_PROMPT_SERVED_MODEL_H_
