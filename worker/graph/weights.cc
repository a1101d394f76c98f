#include "worker/graph/weights.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/base/status_macros.h"
#include "services/gguf/gguf_scan.h"
#include "worker/graph/strict_backend.h"

namespace baton::worker {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckTensor(const gguf::GgufTensorInfo& info,
                         const TensorSpec& spec) {
  // Trailing ones say nothing.
  std::vector<int64_t> shape = info.shape;
  while (shape.size() > spec.shape.size() && shape.back() == 1) {
    shape.pop_back();
  }
  if (shape != spec.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GGUF: tensor ", spec.name, " has shape ", ShapeText(info.shape),
        ", expected ", ShapeText(spec.shape)));
  }
  const ggml_type type = static_cast<ggml_type>(info.type);
  if (spec.shape.size() == 1 ? type != GGML_TYPE_F32
                             : !SupportsMatrixType(type)) {
    return absl::UnimplementedError(
        absl::StrCat("GGUF: tensor ", spec.name, " has type ",
                     ggml_type_name(type), ", which is not supported there"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensors(const gguf::GgufHeader& header,
                          const std::vector<TensorSpec>& specs) {
  absl::flat_hash_set<absl::string_view> known;
  for (const TensorSpec& spec : specs) {
    known.insert(spec.name);
    const gguf::GgufTensorInfo* info = header.FindTensor(spec.name);
    if (info == nullptr) {
      if (!spec.required) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("GGUF: tensor ", spec.name, " is missing"));
    }
    BATON_RETURN_IF_ERROR(CheckTensor(*info, spec));
  }
  for (const gguf::GgufTensorInfo& info : header.tensors()) {
    if (!known.contains(info.name)) {
      return absl::UnimplementedError(
          absl::StrCat("GGUF: tensor ", gguf::PrintableName(info.name),
                       " is unknown to this architecture"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Weights>> Weights::Create(
    const gguf::GgufHeader& header, const MappedFile& file) {
  std::unique_ptr<Weights> weights(new Weights);
  const size_t count = header.tensors().size();
  weights->context_ = ggml_init({/*mem_size=*/count * ggml_tensor_overhead(),
                                 /*mem_buffer=*/nullptr, /*no_alloc=*/true});
  // The whole map, since its base is aligned as ggml demands.
  weights->buffer_ = ggml_backend_cpu_buffer_from_ptr(
      const_cast<char*>(file.bytes().data()), file.bytes().size());
  if (weights->context_ == nullptr || weights->buffer_ == nullptr) {
    return absl::ResourceExhaustedError("no memory for the tensor table");
  }
  ggml_backend_buffer_set_usage(weights->buffer_,
                                GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  for (const gguf::GgufTensorInfo& info : header.tensors()) {
    ggml_tensor* tensor =
        ggml_new_tensor(weights->context_, static_cast<ggml_type>(info.type),
                        static_cast<int>(info.shape.size()), info.shape.data());
    ggml_set_name(tensor, info.name.c_str());
    if (ggml_backend_tensor_alloc(
            weights->buffer_, tensor,
            const_cast<char*>(file.bytes().data()) + info.file_offset) !=
        GGML_STATUS_SUCCESS) {
      return absl::InternalError(
          absl::StrCat("ggml cannot place tensor ", info.name));
    }
    weights->by_name_[info.name] = tensor;
  }
  return weights;
}

Weights::~Weights() {
  if (buffer_ != nullptr) ggml_backend_buffer_free(buffer_);
  if (context_ != nullptr) ggml_free(context_);
}

ggml_tensor* Weights::Find(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

ggml_tensor* Weights::Get(absl::string_view name) const {
  ggml_tensor* tensor = Find(name);
  BATON_CHECK(tensor != nullptr,
              "CheckTensors has required all that a graph uses");
  return tensor;
}

}  // namespace baton::worker
