// The metadata and tensors that all dense decoders share.
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/status_macros.h"
#include "worker/graph/architecture.h"
#include "worker/kernels/attention/paged_attention.h"

namespace baton::worker {
namespace {

// Sizes beyond these are no model that exists; they keep products of two of
// them within 64 bits.
constexpr uint64_t kMaxSize = uint64_t{1} << 24;
constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxContext = uint64_t{1} << 30;

// Reads the keys of one architecture: "<prefix>.<key>".
class KeyReader {
 public:
  KeyReader(const gguf::GgufHeader& header, absl::string_view prefix)
      : header_(header), prefix_(prefix) {}

  std::string Name(absl::string_view key) const {
    return absl::StrCat(prefix_, ".", key);
  }
  bool Has(absl::string_view key) const { return header_.Has(Name(key)); }

  absl::StatusOr<uint32_t> SizeFrom(absl::string_view key, uint64_t min,
                                    uint64_t max) const {
    absl::StatusOr<uint64_t> value = header_.Unsigned(Name(key));
    if (!value.ok()) return Missing(value.status());
    if (*value < min || *value > max) {
      return absl::InvalidArgumentError(absl::StrCat(
          "GGUF key ", Name(key), " is ", *value, ", not ", min, " to ", max));
    }
    return static_cast<uint32_t>(*value);
  }
  absl::StatusOr<uint32_t> Size(absl::string_view key, uint64_t max) const {
    return SizeFrom(key, 1, max);
  }
  absl::StatusOr<uint32_t> SizeOr(absl::string_view key, uint64_t max,
                                  uint32_t otherwise) const {
    return Has(key) ? Size(key, max) : otherwise;
  }
  absl::StatusOr<float> PositiveFloat(absl::string_view key) const {
    absl::StatusOr<double> value = header_.Float(Name(key));
    if (!value.ok()) return Missing(value.status());
    const float narrow = static_cast<float>(*value);
    if (!(narrow > 0) || !std::isfinite(narrow)) {
      return absl::InvalidArgumentError(
          absl::StrCat("GGUF key ", Name(key), " is ", *value));
    }
    return narrow;
  }
  absl::StatusOr<std::string> String(absl::string_view key) const {
    return header_.String(Name(key));
  }

 private:
  // A key that a model must have makes the file invalid, not "not found".
  static absl::Status Missing(const absl::Status& status) {
    return absl::InvalidArgumentError(status.message());
  }

  const gguf::GgufHeader& header_;
  const absl::string_view prefix_;
};

// Keys that change the computation in ways these graphs do not have.
absl::Status RefuseUnsupported(const KeyReader& keys) {
  static const char* const kRefused[] = {"expert_count",
                                         "attention.sliding_window",
                                         "attention.scale",
                                         "attention.clamp_kqv",
                                         "logit_scale",
                                         "residual_scale",
                                         "embedding_scale",
                                         "attn_logit_softcapping",
                                         "rope.dimension_sections"};
  for (const char* key : kRefused) {
    if (keys.Has(key)) {
      return absl::UnimplementedError(
          absl::StrCat("GGUF key ", keys.Name(key), " is not supported"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RopeParameters> ReadRope(const KeyReader& keys, RopePairs pairs,
                                        uint32_t head_dim) {
  RopeParameters rope;
  rope.pairs = pairs;
  BATON_ASSIGN_OR_RETURN(
      rope.dimensions, keys.SizeOr("rope.dimension_count", head_dim, head_dim));
  if (rope.dimensions % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GGUF key ", keys.Name("rope.dimension_count"), " is odd"));
  }
  if (keys.Has("rope.freq_base")) {
    BATON_ASSIGN_OR_RETURN(rope.base, keys.PositiveFloat("rope.freq_base"));
  }
  std::string type = "linear";
  if (keys.Has("rope.scaling.type")) {
    BATON_ASSIGN_OR_RETURN(type, keys.String("rope.scaling.type"));
  }
  if (type != "linear" && type != "none") {
    return absl::UnimplementedError(absl::StrCat(
        "GGUF key ", keys.Name("rope.scaling.type"), ": RoPE scaling ", type,
        " is not supported (none and linear are)"));
  }
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    if (type == "none" || !keys.Has(key)) continue;
    BATON_ASSIGN_OR_RETURN(const float factor, keys.PositiveFloat(key));
    rope.position_scale = 1.0f / factor;
    break;
  }
  return rope;
}

absl::Status ReadHeads(const KeyReader& keys, Hyperparameters* hp) {
  BATON_ASSIGN_OR_RETURN(hp->heads,
                         keys.Size("attention.head_count", kMaxSize));
  BATON_ASSIGN_OR_RETURN(hp->kv_heads, keys.SizeOr("attention.head_count_kv",
                                                   kMaxSize, hp->heads));
  if (hp->heads % hp->kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("GGUF: ", hp->heads,
                                                   " heads are no multiple of ",
                                                   hp->kv_heads, " KV heads"));
  }
  if (!keys.Has("attention.key_length") && hp->embedding % hp->heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("GGUF: embedding length ", hp->embedding,
                     " is no multiple of ", hp->heads, " heads"));
  }
  BATON_ASSIGN_OR_RETURN(
      hp->head_dim,
      keys.SizeOr("attention.key_length", kMaxSize, hp->embedding / hp->heads));
  BATON_ASSIGN_OR_RETURN(
      const uint32_t value_dim,
      keys.SizeOr("attention.value_length", kMaxSize, hp->head_dim));
  if (value_dim != hp->head_dim || hp->head_dim % 16 != 0 ||
      hp->head_dim > kMaxHeadDim) {
    return absl::UnimplementedError(absl::StrCat(
        "GGUF: heads of ", hp->head_dim, " and ", value_dim,
        " elements are not supported (equal, a multiple of 16, at most ",
        kMaxHeadDim, ")"));
  }
  return absl::OkStatus();
}

// block_count counts the MTP block too.
absl::Status ReadDraftLayers(const KeyReader& keys, Hyperparameters* hp) {
  if (!keys.Has("nextn_predict_layers")) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const uint64_t layers,
                         keys.SizeFrom("nextn_predict_layers", 0, kMaxLayers));
  if (layers > 1) {
    return absl::UnimplementedError(
        absl::StrCat("GGUF key ", keys.Name("nextn_predict_layers"), " is ",
                     layers, "; one MTP block is supported"));
  }
  hp->draft_layers = static_cast<uint32_t>(layers);
  if (hp->layers <= layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GGUF key ", keys.Name("block_count"), " leaves no layer"));
  }
  hp->layers -= hp->draft_layers;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Hyperparameters> ReadDenseHyperparameters(
    const gguf::GgufHeader& header, absl::string_view name, RopePairs pairs) {
  const KeyReader keys(header, name);
  BATON_RETURN_IF_ERROR(RefuseUnsupported(keys));
  Hyperparameters hp;
  BATON_ASSIGN_OR_RETURN(hp.layers, keys.Size("block_count", kMaxLayers));
  BATON_RETURN_IF_ERROR(ReadDraftLayers(keys, &hp));
  BATON_ASSIGN_OR_RETURN(hp.embedding, keys.Size("embedding_length", kMaxSize));
  BATON_ASSIGN_OR_RETURN(hp.feed_forward,
                         keys.Size("feed_forward_length", kMaxSize));
  BATON_ASSIGN_OR_RETURN(hp.context_length,
                         keys.Size("context_length", kMaxContext));
  BATON_ASSIGN_OR_RETURN(
      hp.norm_epsilon, keys.PositiveFloat("attention.layer_norm_rms_epsilon"));
  BATON_RETURN_IF_ERROR(ReadHeads(keys, &hp));
  BATON_ASSIGN_OR_RETURN(hp.rope, ReadRope(keys, pairs, hp.head_dim));
  // The embedding's rows, not vocab_size: they are what a token indexes.
  const gguf::GgufTensorInfo* embedding =
      header.FindTensor("token_embd.weight");
  if (embedding == nullptr) return hp;
  if (embedding->shape.size() != 2 ||
      static_cast<uint64_t>(embedding->shape[1]) > kMaxSize) {
    return absl::InvalidArgumentError(
        "GGUF: tensor token_embd.weight is no matrix");
  }
  hp.vocabulary = static_cast<uint32_t>(embedding->shape[1]);
  return hp;
}

std::vector<TensorSpec> OuterTensors(const Hyperparameters& hp) {
  const int64_t d = hp.embedding;
  return {
      {"token_embd.weight", {d, hp.vocabulary}},
      {"output_norm.weight", {d}},
      {"output.weight", {d, hp.vocabulary}, false},
  };
}

std::vector<TensorSpec> DenseLayerTensors(const Hyperparameters& hp,
                                          uint32_t layer) {
  const int64_t d = hp.embedding, ff = hp.feed_forward;
  const int64_t q = static_cast<int64_t>(hp.heads) * hp.head_dim;
  const int64_t kv = static_cast<int64_t>(hp.kv_heads) * hp.head_dim;
  std::vector<TensorSpec> specs = {
      {"attn_norm.weight", {d}},      {"attn_q.weight", {d, q}},
      {"attn_k.weight", {d, kv}},     {"attn_v.weight", {d, kv}},
      {"attn_output.weight", {q, d}}, {"ffn_norm.weight", {d}},
      {"ffn_gate.weight", {d, ff}},   {"ffn_up.weight", {d, ff}},
      {"ffn_down.weight", {ff, d}},
  };
  for (TensorSpec& spec : specs) spec.name = LayerTensor(layer, spec.name);
  return specs;
}

std::vector<TensorSpec> NextnTensors(const Hyperparameters& hp,
                                     uint32_t layer) {
  const int64_t d = hp.embedding;
  return {
      {LayerTensor(layer, "nextn.eh_proj.weight"), {2 * d, d}},
      {LayerTensor(layer, "nextn.enorm.weight"), {d}},
      {LayerTensor(layer, "nextn.hnorm.weight"), {d}},
      {LayerTensor(layer, "nextn.shared_head_norm.weight"), {d}, false},
  };
}

std::vector<TensorSpec> Architecture::FileTensors(
    const Hyperparameters& hp) const {
  std::vector<TensorSpec> tensors = Tensors(hp);
  if (hp.draft_layers > 0) {
    const std::vector<TensorSpec> more = DraftTensors(hp);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

std::string LayerTensor(uint32_t layer, absl::string_view what) {
  return absl::StrCat("blk.", layer, ".", what);
}

std::string HyperparametersText(const Hyperparameters& hp) {
  return absl::StrFormat(
      "layers=%u embedding=%u feed_forward=%u heads=%u kv_heads=%u "
      "head_dim=%u vocabulary=%u epsilon=%.9g rope=%s:%u:%.9g:%.9g",
      hp.layers, hp.embedding, hp.feed_forward, hp.heads, hp.kv_heads,
      hp.head_dim, hp.vocabulary, hp.norm_epsilon,
      hp.rope.pairs == RopePairs::kAdjacent ? "adjacent" : "halves",
      hp.rope.dimensions, hp.rope.base, hp.rope.position_scale);
}

}  // namespace baton::worker
