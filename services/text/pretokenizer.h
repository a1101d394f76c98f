// Splits text into the pieces that byte-pair merges never cross. Each family
// of vocabularies has its own patterns (tokenizer.ggml.pre).
// Immutable after Create; thread-safe.
#ifndef BATON_SERVICES_TEXT_PRETOKENIZER_H_
#define BATON_SERVICES_TEXT_PRETOKENIZER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::text {

class Pretokenizer {
 public:
  // `name`: the value of tokenizer.ggml.pre. Errors: kUnimplemented naming it.
  static absl::StatusOr<std::unique_ptr<Pretokenizer>> Create(
      absl::string_view name);
  virtual ~Pretokenizer() = default;

  // Appends the pieces of `text`, which together are all of it, in order.
  // Invalid UTF-8 is allowed: its bytes are pieces apart from the text around.
  virtual void Split(absl::string_view text,
                     std::vector<absl::string_view>& pieces) const = 0;

  // A piece that is a token as a whole is that token, whatever the merges say.
  virtual bool ignores_merges() const = 0;
  // What the family does where tokenizer.ggml.add_bos_token is missing.
  virtual bool adds_bos() const = 0;
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_PRETOKENIZER_H_
