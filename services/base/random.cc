#include "services/base/random.h"

#include <sys/random.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/status_macros.h"

namespace baton {

uint64_t RandomIdentity() {
  uint64_t value = 0;
  while (value == 0) {
    // At most 256 bytes: getrandom neither fails nor returns short once the
    // system's pool is ready, and it waits until then.
    ssize_t n = getrandom(&value, sizeof(value), 0);
    BATON_CHECK(n == sizeof(value), "getrandom of 8 bytes is never short");
  }
  return value;
}

std::string RandomName(absl::string_view prefix) {
  return absl::StrCat(prefix,
                      absl::StrFormat("%016x%08x", RandomIdentity(),
                                      static_cast<uint32_t>(RandomIdentity())));
}

}  // namespace baton
