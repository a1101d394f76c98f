// The alphabet in which byte-level vocabularies are written: every byte has a
// printable character (GPT-2's bytes_to_unicode), so that the files hold plain
// text. Functions of their arguments; thread-safe.
#ifndef BATON_SERVICES_TEXT_BYTE_ALPHABET_H_
#define BATON_SERVICES_TEXT_BYTE_ALPHABET_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::text {

// The bytes that `text` spells; nullopt if a character is not of the alphabet.
std::optional<std::string> BytesOfAlphabet(absl::string_view text);

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_BYTE_ALPHABET_H_
