#include "worker/graph/strict_backend.h"

#include <gnu/libc-version.h>

#include "absl/strings/str_cat.h"
#include "ggml-cpu.h"
#include "services/base/status_macros.h"
#include "worker/kernels/kernel_form.h"

namespace baton::worker {
namespace {

// Between steps the pool's threads spin for about two milliseconds, enough to
// bridge sampling, then sleep: other processes share the cores.
constexpr uint32_t kPollLevel = 1;

// ggml's entry points, found by name so that a build with loadable backends
// works the same.
template <typename Function>
absl::Status Lookup(ggml_backend_reg_t registry, const char* name,
                    Function* function) {
  *function = reinterpret_cast<Function>(
      ggml_backend_reg_get_proc_address(registry, name));
  if (*function == nullptr) {
    return absl::InternalError(absl::StrCat("ggml's CPU backend lacks ", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StrictBackend>> StrictBackend::Create(
    int threads) {
  if (threads < 1 || threads > GGML_MAX_N_THREADS) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads must be 1 to ", GGML_MAX_N_THREADS));
  }
  std::unique_ptr<StrictBackend> backend(new StrictBackend(threads));
  BATON_RETURN_IF_ERROR(backend->Open());
  return backend;
}

absl::Status StrictBackend::Open() {
  ggml_backend_dev_t device =
      ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return absl::InternalError("ggml has no CPU backend");
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device);
  void (*set_use_ref)(ggml_backend_t, bool);
  void (*set_pool)(ggml_backend_t, ggml_threadpool*);
  ggml_backend_set_n_threads_t set_threads;
  ggml_threadpool* (*create_pool)(ggml_threadpool_params*);
  BATON_RETURN_IF_ERROR(
      Lookup(registry, "ggml_backend_cpu_set_use_ref", &set_use_ref));
  BATON_RETURN_IF_ERROR(
      Lookup(registry, "ggml_backend_cpu_set_threadpool", &set_pool));
  BATON_RETURN_IF_ERROR(
      Lookup(registry, "ggml_backend_set_n_threads", &set_threads));
  BATON_RETURN_IF_ERROR(Lookup(registry, "ggml_threadpool_new", &create_pool));
  BATON_RETURN_IF_ERROR(Lookup(registry, "ggml_threadpool_free", &free_pool_));

  backend_ = ggml_backend_dev_init(device, nullptr);
  if (backend_ == nullptr) {
    return absl::InternalError("ggml's CPU backend does not start");
  }
  ggml_threadpool_params params = ggml_threadpool_params_default(threads_);
  params.poll = kPollLevel;
  pool_ = create_pool(&params);
  if (pool_ == nullptr) return absl::InternalError("no ggml thread pool");
  set_threads(backend_, threads_);
  set_pool(backend_, pool_);
  set_use_ref(backend_, true);
  return absl::OkStatus();
}

StrictBackend::~StrictBackend() {
  if (backend_ != nullptr) ggml_backend_free(backend_);
  if (pool_ != nullptr) free_pool_(pool_);
}

absl::Status StrictBackend::Compute(ggml_cgraph* graph) {
  const ggml_status status = ggml_backend_graph_compute(backend_, graph);
  if (status == GGML_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("ggml: ", ggml_status_to_string(status)));
}

ggml_backend_buffer_type_t StrictBackend::buffer_type() const {
  return ggml_backend_get_default_buffer_type(backend_);
}

bool SupportsMatrixType(ggml_type type) {
  if (type == GGML_TYPE_F32) return true;
  if (type != GGML_TYPE_F16 && type != GGML_TYPE_BF16 &&
      !ggml_is_quantized(type)) {
    return false;
  }
  // Formats of activations, never of weights.
  if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) return false;
  const ggml_type_traits_cpu* traits = ggml_get_type_traits_cpu(type);
  return traits->vec_dot != nullptr &&
         ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float != nullptr;
}

std::string NumericsId(bool ggml_computes) {
  std::string id =
      absl::StrCat("k", kKernelRevision, "-glibc", gnu_get_libc_version());
  if (ggml_cpu_has_fma()) absl::StrAppend(&id, "-fma");
  if (!ggml_computes) return id;
  absl::StrAppend(&id, "-ggml", ggml_version());
  const struct {
    const char* name;
    int present;
  } kFeatures[] = {
      {"avx", ggml_cpu_has_avx()},
      {"avx2", ggml_cpu_has_avx2()},
      {"f16c", ggml_cpu_has_f16c()},
      {"avxvnni", ggml_cpu_has_avx_vnni()},
      {"avx512", ggml_cpu_has_avx512()},
      {"avx512vbmi", ggml_cpu_has_avx512_vbmi()},
      {"avx512vnni", ggml_cpu_has_avx512_vnni()},
      {"avx512bf16", ggml_cpu_has_avx512_bf16()},
      {"neon", ggml_cpu_has_neon()},
      {"armfma", ggml_cpu_has_arm_fma()},
      {"fp16va", ggml_cpu_has_fp16_va()},
      {"dotprod", ggml_cpu_has_dotprod()},
      {"i8mm", ggml_cpu_has_matmul_int8()},
      {"sve", ggml_cpu_has_sve() ? ggml_cpu_get_sve_cnt() : 0},
      {"llamafile", ggml_cpu_has_llamafile()},
  };
  for (const auto& feature : kFeatures) {
    if (feature.present != 0) absl::StrAppend(&id, "-", feature.name);
  }
  return id;
}

}  // namespace baton::worker
