#include "worker/model/mtp_head.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/gguf/gguf_scan.h"
#include "worker/model/file_digest.h"

namespace baton::worker {
namespace {

constexpr char kTargetKey[] = "baton.mtp.target_sha256";
constexpr char kVocabularyKey[] = "baton.mtp.draft_vocabulary";

// A file of the block alone says nothing of vocabulary and context.
absl::Status CheckSizes(Hyperparameters head, const Hyperparameters& target) {
  if (head.draft_layers != 1) {
    return absl::InvalidArgumentError(
        "the file holds no MTP block: its nextn_predict_layers is not 1");
  }
  head.vocabulary = target.vocabulary;
  const std::string here = HyperparametersText(target);
  const std::string there = HyperparametersText(head);
  if (here == there) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the MTP block is for a model of other sizes: ", there, "; not ", here));
}

absl::Status CheckTarget(const gguf::GgufHeader& header,
                         const MtpHead::Target& target) {
  const absl::StatusOr<std::string> digest = header.String(kTargetKey);
  if (!digest.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the MTP block does not say which model it is for (GGUF key ",
        kTargetKey, ")"));
  }
  if (*digest == target.digest.Hex()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the MTP block is for the model file with SHA-256 ",
      gguf::PrintableName(*digest), ", not ", target.digest.Hex()));
}

absl::StatusOr<std::vector<TokenId>> ReadVocabulary(
    const gguf::GgufHeader& header, uint32_t tokens) {
  std::vector<TokenId> vocabulary;
  if (!header.Has(kVocabularyKey)) return vocabulary;
  BATON_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                         header.IntArray(kVocabularyKey));
  int64_t last = -1;
  for (const int64_t id : ids) {
    if (id <= last || id >= tokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          "GGUF key ", kVocabularyKey, " does not ascend from 0 to ", tokens));
    }
    last = id;
    vocabulary.push_back(static_cast<TokenId>(id));
  }
  return vocabulary;
}

ggml_tensor* OutputMatrix(const Weights& weights) {
  ggml_tensor* output = weights.Find("output.weight");
  return output != nullptr ? output : weights.Get("token_embd.weight");
}

}  // namespace

MtpHead::~MtpHead() {
  if (context_ != nullptr) ggml_free(context_);
}

absl::Status MtpHead::TakeVocabulary(const gguf::GgufHeader& header,
                                     const Target& target) {
  BATON_ASSIGN_OR_RETURN(vocabulary_,
                         ReadVocabulary(header, target.hp.vocabulary));
  const ggml_tensor* whole = OutputMatrix(*target.weights);
  if (vocabulary_.empty()) {
    output_ = OutputMatrix(*target.weights);
    return absl::OkStatus();
  }
  const size_t row_bytes = whole->nb[1];
  context_ = ggml_init({/*mem_size=*/2 * ggml_tensor_overhead() +
                            row_bytes * vocabulary_.size() + GGML_MEM_ALIGN,
                        /*mem_buffer=*/nullptr, /*no_alloc=*/false});
  if (context_ == nullptr) {
    return absl::ResourceExhaustedError("no memory for the draft vocabulary");
  }
  output_ = ggml_new_tensor_2d(context_, whole->type, whole->ne[0],
                               static_cast<int64_t>(vocabulary_.size()));
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    std::memcpy(static_cast<char*>(output_->data) + i * row_bytes,
                static_cast<const char*>(whole->data) +
                    static_cast<size_t>(vocabulary_[i]) * row_bytes,
                row_bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MtpHead>> MtpHead::FromModel(
    const Target& target) {
  std::unique_ptr<MtpHead> head(new MtpHead);
  head->weights_ = target.weights;
  head->digest_ = target.digest;
  BATON_RETURN_IF_ERROR(head->TakeVocabulary(*target.header, target));
  return head;
}

absl::StatusOr<std::unique_ptr<MtpHead>> MtpHead::FromFile(
    const std::string& path, const std::string& digest_cache_directory,
    const Target& target) {
  absl::StatusOr<std::unique_ptr<MtpHead>> head =
      Load(path, digest_cache_directory, target);
  if (head.ok() || absl::StrContains(head.status().message(), path)) {
    return head;
  }
  return absl::Status(head.status().code(),
                      absl::StrCat(path, ": ", head.status().message()));
}

absl::StatusOr<std::unique_ptr<MtpHead>> MtpHead::Load(
    const std::string& path, const std::string& digest_cache_directory,
    const Target& target) {
  std::unique_ptr<MtpHead> head(new MtpHead);
  BATON_ASSIGN_OR_RETURN(head->file_, MappedFile::Open(path));
  BATON_ASSIGN_OR_RETURN(auto header, gguf::GgufHeader::FromFile(path));
  BATON_ASSIGN_OR_RETURN(const std::string architecture,
                         header->String("general.architecture"));
  if (architecture != target.architecture->name()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the MTP block is of architecture ", gguf::PrintableName(architecture),
        ", the model of ", target.architecture->name()));
  }
  BATON_RETURN_IF_ERROR(CheckTarget(*header, target));
  BATON_ASSIGN_OR_RETURN(const Hyperparameters hp,
                         target.architecture->ReadHyperparameters(*header));
  BATON_RETURN_IF_ERROR(CheckSizes(hp, target.hp));
  BATON_RETURN_IF_ERROR(
      CheckTensors(*header, target.architecture->DraftTensors(target.hp)));
  BATON_ASSIGN_OR_RETURN(head->own_weights_,
                         Weights::Create(*header, *head->file_));
  head->weights_ = head->own_weights_.get();
  BATON_ASSIGN_OR_RETURN(
      head->digest_, FileDigest(*head->file_, digest_cache_directory, nullptr));
  BATON_RETURN_IF_ERROR(head->TakeVocabulary(*header, target));
  return head;
}

}  // namespace baton::worker
