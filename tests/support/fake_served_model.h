// A served model without a model file: one token a byte, and a template that
// writes "<role>content" and "<assistant>".
#ifndef BATON_TESTS_SUPPORT_FAKE_SERVED_MODEL_H_
#define BATON_TESTS_SUPPORT_FAKE_SERVED_MODEL_H_

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gateway/prompt/request_builder.h"
#include "services/base/error_details.h"
#include "services/base/mutex.h"

namespace baton::gateway {

// Ids 0 to 255 are bytes, 256 is BOS "<s>", 257 is EOS "</s>".
class ByteTokenizer final : public text::Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEos = 257;

  std::vector<TokenId> Encode(absl::string_view text, bool add_special,
                              bool) const override {
    std::vector<TokenId> ids;
    if (add_special) ids.push_back(kBos);
    for (const char byte : text) ids.push_back(static_cast<uint8_t>(byte));
    return ids;
  }
  std::vector<TokenId> EncodeSpans(std::span<const text::TextSpan> spans,
                                   bool add_special) const override {
    std::string joined;
    for (const text::TextSpan& span : spans) joined += span.text;
    return Encode(joined, add_special, true);
  }
  std::string TokenBytes(TokenId token, bool render_special) const override {
    if (token >= 0 && token < 256) {
      return std::string(1, static_cast<char>(token));
    }
    if (!render_special) return "";
    if (token == kBos) return "<s>";
    return token == kEos ? "</s>" : "";
  }
  uint32_t vocabulary_size() const override { return 258; }
  TokenId bos() const override { return kBos; }
  const std::vector<TokenId>& end_tokens() const override { return ends_; }
  bool adds_bos() const override { return true; }

 private:
  const std::vector<TokenId> ends_ = {kEos};
};

class PlainTemplate final : public text::ChatTemplate {
 public:
  absl::StatusOr<std::vector<text::TextSpan>> Render(
      const std::vector<text::ChatTurn>& turns,
      absl::string_view kwargs_json) const override {
    if (kwargs_json == R"({"bad":1})") {
      return WithField(absl::InvalidArgumentError("bad cannot be set"),
                       text::kTemplateKwargsField);
    }
    std::vector<text::TextSpan> spans;
    for (const text::ChatTurn& turn : turns) {
      if (turn.content == "raise") {
        return absl::InvalidArgumentError("the template raised an exception");
      }
      spans.push_back({absl::StrCat("<", turn.role, ">"), true});
      spans.push_back({turn.content, false});
    }
    spans.push_back({absl::StrCat(kwargs_json, "<assistant>"), true});
    return spans;
  }
};

inline std::shared_ptr<const ServedModel> MakeByteModel(
    uint32_t context_length = 4096) {
  auto model = std::make_shared<ServedModel>();
  model->name = "byte-model";
  model->aliases = {"org/alias"};
  model->architecture = "bytes";
  model->context_length = context_length;
  model->parameters = 1234;
  model->file_bytes = 5678;
  model->file_type = "F32";
  model->digest =
      std::string("\xab\xcd\xef\x01\x23\x45", 6) + std::string(26, '\x77');
  model->created_unix_seconds = 1700000000;
  model->tokenizer = std::make_shared<ByteTokenizer>();
  model->chat_template = std::make_shared<PlainTemplate>();
  return model;
}

// Thread-safe.
class FakeModelSource final : public ModelSource {
 public:
  explicit FakeModelSource(std::shared_ptr<const ServedModel> model)
      : model_(std::move(model)) {}
  std::shared_ptr<const ServedModel> Current() const override {
    MutexLock lock(&mutex_);
    return model_;
  }
  absl::Status Problem() const override {
    MutexLock lock(&mutex_);
    return problem_;
  }
  void SetProblem(const absl::Status& problem) {
    MutexLock lock(&mutex_);
    problem_ = problem;
  }
  void Set(std::shared_ptr<const ServedModel> model) {
    MutexLock lock(&mutex_);
    model_ = std::move(model);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const ServedModel> model_ ABSL_GUARDED_BY(mutex_);
  absl::Status problem_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_TESTS_SUPPORT_FAKE_SERVED_MODEL_H_
