// The token table of a GGUF file: texts, kinds and the ids that mean
// something. Value; immutable after Load.
#ifndef BATON_SERVICES_TEXT_VOCABULARY_H_
#define BATON_SERVICES_TEXT_VOCABULARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/gguf/gguf_header.h"

namespace baton::text {

// Values of tokenizer.ggml.token_type, as the format defines them.
enum class TokenKind {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Vocabulary {
  std::vector<std::string> texts;  // as in the file
  std::vector<TokenKind> kinds;    // as many
  TokenId bos = -1;                // -1 = none
  TokenId eos = -1;
  bool adds_bos = false;
  bool adds_eos = false;
};

// `family_adds_bos`: for files without tokenizer.ggml.add_bos_token. Tokens
// that end a turn or mark a gap to fill are control tokens whatever the file
// says: many are published as ordinary ones, and a client could then type them.
// Errors: kInvalidArgument naming the key.
absl::StatusOr<Vocabulary> LoadVocabulary(const gguf::GgufHeader& header,
                                          bool family_adds_bos);

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_VOCABULARY_H_
