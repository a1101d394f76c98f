// A tokenizer whose tokens are single bytes: token n is the byte n, 256 ends
// an answer, 257 begins a sequence. Text and tokens can be read off each
// other.
#ifndef BATON_TESTS_SUPPORT_FAKE_TOKENIZER_H_
#define BATON_TESTS_SUPPORT_FAKE_TOKENIZER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/text/tokenizer.h"

namespace baton::testing_support {

inline constexpr TokenId kFakeEnd = 256;
inline constexpr TokenId kFakeBos = 257;

class FakeTokenizer final : public text::Tokenizer {
 public:
  std::vector<TokenId> Encode(absl::string_view text, bool add_special,
                              bool) const override {
    std::vector<TokenId> ids;
    if (add_special) ids.push_back(kFakeBos);
    for (unsigned char c : text) ids.push_back(c);
    return ids;
  }
  std::vector<TokenId> EncodeSpans(std::span<const text::TextSpan> spans,
                                   bool add_special) const override {
    std::string all;
    for (const text::TextSpan& span : spans) all += span.text;
    return Encode(all, add_special, false);
  }
  std::string TokenBytes(TokenId token, bool render_special) const override {
    if (token >= 0 && token < 256) return std::string(1, char(token));
    if (!render_special) return "";
    return token == kFakeEnd ? "<end>" : "<bos>";
  }
  uint32_t vocabulary_size() const override { return 258; }
  TokenId bos() const override { return kFakeBos; }
  const std::vector<TokenId>& end_tokens() const override { return ends_; }
  bool adds_bos() const override { return true; }

 private:
  const std::vector<TokenId> ends_ = {kFakeEnd};
};

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_FAKE_TOKENIZER_H_
