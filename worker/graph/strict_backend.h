// ggml's CPU backend, set up so that a row's result depends on that row alone:
// reference implementations only, no fusion, no tiled kernels, no repacked
// weights. The only operation of ggml's that computes in a graph of ours is the
// product with a matrix of a type without kernels (KernelFormat in
// kernel_ops.h); that its rows are invariant under this set-up is what
// tests/unit/worker/model_strict_backend_test proves, type by type.
#ifndef BATON_WORKER_GRAPH_STRICT_BACKEND_H_
#define BATON_WORKER_GRAPH_STRICT_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace baton::worker {

// Owns a thread pool. Runs on one thread at a time.
class StrictBackend {
 public:
  // threads: 1..GGML_MAX_N_THREADS. Errors: kInvalidArgument, kInternal.
  static absl::StatusOr<std::unique_ptr<StrictBackend>> Create(int threads);
  ~StrictBackend();
  StrictBackend(const StrictBackend&) = delete;
  StrictBackend& operator=(const StrictBackend&) = delete;

  // Runs a graph whose tensors are all allocated. Errors: kInternal.
  absl::Status Compute(ggml_cgraph* graph);

  ggml_backend_buffer_type_t buffer_type() const;
  int threads() const { return threads_; }

 private:
  explicit StrictBackend(int threads) : threads_(threads) {}
  absl::Status Open();

  const int threads_;
  ggml_backend_t backend_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
  void (*free_pool_)(ggml_threadpool*) = nullptr;
};

// Whether a matrix of `type` can be multiplied and its rows be read under
// StrictBackend.
bool SupportsMatrixType(ggml_type type);

// Names everything that decides the bits of a result: the revision of our
// kernels, and the C library, whose log and exp the sampler uses, with whether
// it has FMA. Where `ggml_computes` (a matrix is of a type that our kernels do
// not know), also ggml and the instruction set that it was compiled for: its
// order of additions follows the vector width. Workers with equal ids give
// equal bits. Example: "k4-glibc2.36-fma".
std::string NumericsId(bool ggml_computes);

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_STRICT_BACKEND_H_
