// Any bytes through the tokenizer: no crash, nothing lost, no control token
// from untrusted text, the same ids from spans as from the whole, and a
// streaming decoder that gives valid UTF-8.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "services/text/stop_matcher.h"
#include "services/text/tokenizer.h"
#include "services/text/utf8.h"
#include "tests/unit/services/text_vocabulary_bytes.h"

namespace baton::text {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

std::unique_ptr<Tokenizer> Make(const char* pre) {
  SmallVocabulary vocabulary;
  vocabulary.pre = pre;
  auto header = gguf::GgufHeader::FromBytes(vocabulary.Bytes());
  Require(header.ok());
  auto tokenizer = Tokenizer::Create(**header);
  Require(tokenizer.ok());
  return *std::move(tokenizer);
}

void Check(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> plain = tokenizer.Encode(text, false, false);
  std::string bytes;
  std::string streamed;
  StreamingDetokenizer detokenizer(&tokenizer);
  StopMatcher stops({"hello", "lo w"});
  bool stopped = false;
  for (const TokenId id : plain) {
    Require(id != SmallVocabulary::kStart && id != SmallVocabulary::kEnd);
    bytes += tokenizer.TokenBytes(id, false);
    const std::string piece = detokenizer.Append(id);
    streamed += piece;
    if (!stopped) stopped = stops.Append(piece).stopped;
  }
  streamed += detokenizer.Flush();
  Require(bytes == text);
  Require(ValidUtf8Prefix(streamed) == streamed.size());

  const size_t half = text.size() / 2;
  const std::vector<TextSpan> spans = {{text.substr(0, half), true},
                                       {text.substr(half), true}};
  Require(tokenizer.EncodeSpans(spans, false) ==
          tokenizer.Encode(text, false, true));
}

}  // namespace
}  // namespace baton::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using baton::text::Tokenizer;
  static const std::vector<std::unique_ptr<Tokenizer>> tokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> out;
    for (const char* pre :
         {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "default"}) {
      out.push_back(baton::text::Make(pre));
    }
    return out;
  }();
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : tokenizers) {
    baton::text::Check(*tokenizer, text);
  }
  return 0;
}
