// A model without a file: the layout and description that a worker needs, and
// FakeForward as its pass.
#ifndef BATON_TESTS_SUPPORT_FAKE_MODEL_H_
#define BATON_TESTS_SUPPORT_FAKE_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "services/base/status_macros.h"
#include "tests/support/fake_forward.h"
#include "worker/model/model.h"

namespace baton::worker {

class FakeModel final : public Model {
 public:
  static constexpr uint32_t kVocabulary = 300;
  static constexpr uint32_t kContext = 1024;
  static constexpr TokenId kEndToken = 2;
  static constexpr uint32_t kBlockTokens = 64;
  // A row of FakeForward stands where a model has its K rows; the V half of a
  // block is never written.
  static constexpr uint64_t kBlockBytes =
      2 * kBlockTokens * FakeForward::kRowBytes;

  // `numerics_id` makes layouts differ.
  explicit FakeModel(std::string numerics_id = "fake-1") {
    description_.name = "fake";
    description_.architecture = "fake";
    description_.context_length = kContext;
    description_.vocabulary = kVocabulary;
    description_.end_tokens = {kEndToken};
    description_.file_type = "F64";
    description_.digest = kvstore::Sha256("fake model");
    description_.header_digest = kvstore::Sha256(header_bytes());
    layout_.model_digest = description_.digest;
    layout_.architecture = "fake";
    layout_.numerics_mode = "strict";
    layout_.numerics_id = std::move(numerics_id);
    layout_.block_tokens = kBlockTokens;
    layout_.groups = {{"attn", "full_suffix", "f16", 1, 1, 4, kBlockBytes}};
  }

  // Called at the start of each pass of every forward made afterwards.
  std::function<void(const StepBatch&)> on_run;

  const ModelDescription& description() const override { return description_; }
  const kvstore::KvLayout& layout() const override { return layout_; }
  const gguf::GgufHeader& header() const override {
    BATON_CHECK(false, "a fake model has no file");
  }
  absl::string_view header_bytes() const override { return "fake header"; }
  absl::StatusOr<std::unique_ptr<Forward>> CreateForward(
      BlockPool* pool, int threads) const override {
    auto forward = std::make_unique<FakeForward>(pool, kVocabulary, kContext);
    forward->on_run = on_run;
    return forward;
  }

 private:
  ModelDescription description_;
  kvstore::KvLayout layout_;
};

}  // namespace baton::worker

#endif  // BATON_TESTS_SUPPORT_FAKE_MODEL_H_
