// Byte-pair tokenizer of a GGUF vocabulary (tokenizer.ggml.model = gpt2).
// Immutable after Create; thread-safe.
#ifndef BATON_SERVICES_TEXT_TOKENIZER_H_
#define BATON_SERVICES_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/ids.h"
#include "services/gguf/gguf_header.h"

namespace baton::text {

// A run of text and whether special tokens inside it count. Template text is
// trusted, client text is not: "<|im_end|>" typed by a user stays text.
struct TextSpan {
  std::string text;
  bool trusted = false;
};

class Tokenizer {
 public:
  // The one check of whether a model's text can be served: gateway, worker and
  // doctor ask here. Errors, one line: kInvalidArgument naming the key that is
  // missing, of the wrong type, or at odds with the vocabulary (ids outside it,
  // a token_embd.weight of another size); kUnimplemented naming the tokenizer
  // model or pre-tokenizer that is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(
      const gguf::GgufHeader& header);
  virtual ~Tokenizer() = default;

  // Ids of `text`. Special tokens in it are matched if `parse_special`. With
  // `add_special`, BOS and EOS as the model asks. Any bytes are accepted;
  // invalid UTF-8 becomes byte tokens.
  virtual std::vector<TokenId> Encode(absl::string_view text, bool add_special,
                                      bool parse_special) const = 0;

  // Ids of a rendered template: special tokens are matched only inside
  // trusted spans, and the text between two special tokens is one run even
  // where it crosses spans, so that benign prompts get the ids that Encode
  // gives to the whole.
  virtual std::vector<TokenId> EncodeSpans(std::span<const TextSpan> spans,
                                           bool add_special) const = 0;

  // The bytes of a token; control tokens give nothing unless
  // `render_special`. Out of range: empty.
  virtual std::string TokenBytes(TokenId token, bool render_special) const = 0;

  virtual uint32_t vocabulary_size() const = 0;
  virtual TokenId bos() const = 0;  // -1 = none
  // All tokens that end a generation (eos, eot, <|im_end|>, <|endoftext|>…).
  virtual const std::vector<TokenId>& end_tokens() const = 0;
  virtual bool adds_bos() const = 0;
};

// Text of tokens that arrive one at a time; never gives out half a UTF-8
// sequence. Bytes that cannot become valid UTF-8 turn into U+FFFD. Value;
// thread-compatible.
class StreamingDetokenizer {
 public:
  // `tokenizer` must outlive this.
  explicit StreamingDetokenizer(const Tokenizer* tokenizer)
      : tokenizer_(tokenizer) {}
  // Text that `token` completes; may be empty.
  std::string Append(TokenId token);
  // What is still held back, at the end of the answer.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // the start of an incomplete sequence
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_TOKENIZER_H_
