// One step of reading UTF-8. Functions of their arguments; thread-safe.
#ifndef BATON_SERVICES_TEXT_UTF8_H_
#define BATON_SERVICES_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace baton::text {

enum class Utf8Kind {
  kValid,
  kInvalid,     // these bytes can never begin a valid sequence
  kIncomplete,  // the text ends inside a sequence that is valid so far
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kValid;
  size_t length = 0;        // bytes, at least 1
  uint32_t code_point = 0;  // if valid
};

// The sequence at the start of `text`, which is not empty. Overlong forms,
// surrogates and values above U+10FFFF are invalid; an invalid step covers the
// longest start of a sequence, so that each becomes one U+FFFD (Unicode 15,
// section 3.9).
Utf8Step ReadUtf8(absl::string_view text);

// Length of the longest valid start of `text`.
size_t ValidUtf8Prefix(absl::string_view text);

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_UTF8_H_
