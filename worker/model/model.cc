#include "worker/model/model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"
#include "services/gguf/end_tokens.h"
#include "worker/architectures/registry.h"
#include "worker/graph/architecture.h"
#include "worker/graph/kernel_ops.h"
#include "worker/graph/mapped_file.h"
#include "worker/graph/strict_backend.h"
#include "worker/graph/weights.h"
#include "worker/kernels/attention/paged_attention.h"
#include "worker/model/file_digest.h"
#include "worker/model/ggml_forward.h"
#include "worker/model/mtp_head.h"

namespace baton::worker {
namespace {

using HeaderPointer = std::unique_ptr<gguf::GgufHeader>;

uint64_t Elements(const gguf::GgufTensorInfo& info) {
  uint64_t elements = 1;
  for (const int64_t size : info.shape) elements *= size;
  return elements;
}

// The type that holds most of the parameters: what a file is named after.
std::string MainType(const gguf::GgufHeader& header) {
  std::map<int, uint64_t> elements;
  for (const gguf::GgufTensorInfo& info : header.tensors()) {
    elements[info.type] += Elements(info);
  }
  const auto largest = std::max_element(
      elements.begin(), elements.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == elements.end()) return "";
  return absl::AsciiStrToUpper(
      ggml_type_name(static_cast<ggml_type>(largest->first)));
}

CacheShape MakeShape(const Hyperparameters& hp, KvType kv_type,
                     uint32_t layers) {
  CacheShape shape;
  shape.layers = layers;
  shape.heads = hp.heads;
  shape.kv_heads = hp.kv_heads;
  shape.head_dim = hp.head_dim;
  shape.type = kv_type;
  return shape;
}

// The matrices whose products are ggml's, as "24 x q2_K, 1 x q3_K"; empty if
// our kernels know every type of the file.
std::string GgmlMatrices(const gguf::GgufHeader& header) {
  std::map<ggml_type, int> counts;
  for (const gguf::GgufTensorInfo& info : header.tensors()) {
    const auto type = static_cast<ggml_type>(info.type);
    if (info.shape.size() > 1 && !KernelFormat(type).has_value()) {
      ++counts[type];
    }
  }
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " x ", ggml_type_name(entry.first));
  });
}

kvstore::KvGroup RowGroup(const std::string& name, const Hyperparameters& hp,
                          KvType kv_type, uint32_t layers) {
  kvstore::KvGroup group;
  group.name = name;
  group.kind = "full_suffix";
  group.dtype = KvTypeName(kv_type);
  group.layers = layers;
  group.kv_heads = hp.kv_heads;
  group.head_dim = hp.head_dim;
  group.block_bytes = MakeShape(hp, kv_type, layers).ContentBytes();
  return group;
}

// One hidden row in each block.
kvstore::KvGroup TailGroup(const Hyperparameters& hp) {
  kvstore::KvGroup group;
  group.name = "tail";
  group.kind = "latest_snapshot";
  group.dtype = "f32";
  group.head_dim = hp.embedding;
  group.block_bytes = uint64_t{hp.embedding} * sizeof(float);
  return group;
}

kvstore::KvLayout MakeLayout(const kvstore::Digest& digest,
                             const Architecture& architecture,
                             const Hyperparameters& hp, KvType kv_type,
                             bool ggml_computes, const MtpHead* mtp) {
  kvstore::KvLayout layout;
  layout.model_digest = digest;
  layout.architecture = std::string(architecture.name());
  layout.parameters = HyperparametersText(hp);
  layout.numerics_mode = "strict";
  layout.numerics_id = NumericsId(ggml_computes);
  layout.block_tokens = kBlockTokens;
  layout.groups.push_back(RowGroup("attn", hp, kv_type, hp.layers));
  if (mtp != nullptr) {
    layout.draft_digest = mtp->digest();
    layout.groups.push_back(RowGroup("mtp", hp, kv_type, 1));
    layout.groups.push_back(TailGroup(hp));
  }
  return layout;
}

class MappedModel final : public Model {
 public:
  MappedModel(std::unique_ptr<MappedFile> file, HeaderPointer header,
              const Architecture* architecture, const Hyperparameters& hp,
              std::unique_ptr<Weights> weights, std::unique_ptr<MtpHead> mtp,
              ModelDescription description, const Model::Options& options,
              bool ggml_computes)
      : file_(std::move(file)),
        header_(std::move(header)),
        architecture_(architecture),
        hp_(hp),
        kv_type_(options.kv_type),
        kernel_form_(options.kernel_form),
        weights_(std::move(weights)),
        mtp_(std::move(mtp)),
        description_(std::move(description)),
        layout_(MakeLayout(description_.digest, *architecture_, hp_, kv_type_,
                           ggml_computes, mtp_.get())) {}

  const ModelDescription& description() const override { return description_; }
  const kvstore::KvLayout& layout() const override { return layout_; }
  const gguf::GgufHeader& header() const override { return *header_; }
  absl::string_view header_bytes() const override {
    return file_->bytes().substr(0, header_->header_bytes());
  }

  absl::StatusOr<std::unique_ptr<Forward>> CreateForward(
      BlockPool* pool, int threads) const override {
    const uint64_t wanted = layout_.TargetBytes();
    const uint64_t drafts = layout_.DraftBytes();
    if (pool->block_bytes() != wanted || pool->draft_bytes() != drafts ||
        pool->block_tokens() != kBlockTokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pool's blocks have ", pool->block_bytes(), " + ",
                       pool->draft_bytes(), " bytes and ", pool->block_tokens(),
                       " tokens, the model's ", wanted, " + ", drafts, " and ",
                       kBlockTokens));
    }
    ForwardParts parts;
    parts.architecture = architecture_;
    parts.hp = hp_;
    parts.weights = weights_.get();
    parts.mtp = mtp_.get();
    parts.cache =
        MakeShape(hp_, kv_type_, hp_.layers + (mtp_ == nullptr ? 0 : 1));
    parts.cache.arena = pool->arena();
    parts.cache.block_bytes = pool->stride();
    parts.threads = threads;
    parts.form = kernel_form_;
    return GgmlForward::Create(parts);
  }

 private:
  const std::unique_ptr<MappedFile> file_;
  const HeaderPointer header_;
  const Architecture* const architecture_;
  const Hyperparameters hp_;
  const KvType kv_type_;
  const KernelForm kernel_form_;
  const std::unique_ptr<Weights> weights_;
  const std::unique_ptr<MtpHead> mtp_;  // null = none
  const ModelDescription description_;
  const kvstore::KvLayout layout_;
};

absl::StatusOr<const Architecture*> ArchitectureOf(
    const gguf::GgufHeader& header) {
  const absl::StatusOr<std::string> name =
      header.String("general.architecture");
  if (!name.ok()) {
    return absl::InvalidArgumentError(name.status().message());
  }
  const Architecture* architecture = FindArchitecture(*name);
  if (architecture == nullptr) {
    return absl::UnimplementedError(absl::StrCat("architecture ", *name,
                                                 " is not supported (",
                                                 ArchitectureNames(), " are)"));
  }
  return architecture;
}

ModelDescription Describe(const std::string& path, const MappedFile& file,
                          const gguf::GgufHeader& header,
                          const Architecture& architecture,
                          const Hyperparameters& hp) {
  ModelDescription description;
  const absl::StatusOr<std::string> name = header.String("general.name");
  description.name = name.ok() && !name->empty()
                         ? *name
                         : std::filesystem::path(path).filename().string();
  description.architecture = std::string(architecture.name());
  description.context_length = hp.context_length;
  description.vocabulary = hp.vocabulary;
  description.end_tokens = gguf::EndTokens(header);
  for (const gguf::GgufTensorInfo& info : header.tensors()) {
    description.parameters += Elements(info);
  }
  description.file_bytes = file.bytes().size();
  description.file_type = MainType(header);
  description.header_digest =
      kvstore::Sha256(file.bytes().substr(0, header.header_bytes()));
  return description;
}

// Null if none is asked for.
absl::StatusOr<std::unique_ptr<MtpHead>> LoadMtp(
    const Model::Options& options, const MtpHead::Target& target) {
  if (!options.mtp_path.empty()) {
    return MtpHead::FromFile(options.mtp_path, options.digest_cache_directory,
                             target);
  }
  if (!options.mtp) return std::unique_ptr<MtpHead>();
  if (target.hp.draft_layers == 0) {
    return absl::InvalidArgumentError(
        "the model has no MTP block, and no file with one is named");
  }
  return MtpHead::FromModel(target);
}

absl::StatusOr<std::unique_ptr<Model>> LoadFile(const Model::Options& options) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file,
                         MappedFile::Open(options.path));
  BATON_ASSIGN_OR_RETURN(HeaderPointer header,
                         gguf::GgufHeader::FromFile(options.path));
  BATON_ASSIGN_OR_RETURN(const Architecture* architecture,
                         ArchitectureOf(*header));
  BATON_ASSIGN_OR_RETURN(const Hyperparameters hp,
                         architecture->ReadHyperparameters(*header));
  BATON_RETURN_IF_ERROR(CheckTensors(*header, architecture->FileTensors(hp)));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Weights> weights,
                         Weights::Create(*header, *file));
  const std::string foreign = GgmlMatrices(*header);
  if (!foreign.empty()) {
    Log(LogLevel::kWarning,
        "no kernels of our own for these matrices: slower, and only equal "
        "processors share a cluster",
        {{"matrices", foreign}});
  }
  ModelDescription description =
      Describe(options.path, *file, *header, *architecture, hp);
  BATON_ASSIGN_OR_RETURN(
      description.digest,
      FileDigest(*file, options.digest_cache_directory, options.progress));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<MtpHead> mtp,
                         LoadMtp(options, {architecture, hp, header.get(),
                                           weights.get(), description.digest}));
  return std::make_unique<MappedModel>(
      std::move(file), std::move(header), architecture, hp, std::move(weights),
      std::move(mtp), std::move(description), options, !foreign.empty());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const Options& options) {
  absl::StatusOr<std::unique_ptr<Model>> model = LoadFile(options);
  const auto names = [&](const std::string& path) {
    return !path.empty() && absl::StrContains(model.status().message(), path);
  };
  if (model.ok() || names(options.path) || names(options.mtp_path)) {
    return model;
  }
  return absl::Status(
      model.status().code(),
      absl::StrCat(options.path, ": ", model.status().message()));
}

}  // namespace baton::worker
