// JSON from clients: parsed with limits, read field by field with errors that
// name the field. Nothing here throws.
#ifndef BATON_GATEWAY_HTTP_JSON_READER_H_
#define BATON_GATEWAY_HTTP_JSON_READER_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/ids.h"

namespace baton::gateway {

// Not ordered_json: its inserts are linear, and a client could make them many.
using Json = nlohmann::json;

// An object of at most `kMaxJsonDepth` levels. Errors: kInvalidArgument
// "invalid_value": not JSON, not an object, too deep, invalid UTF-8, a number
// beyond double,
// a value count beyond kMaxJsonValues (memory is a multiple of the text).
inline constexpr int kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonValues = 4 << 20;
absl::StatusOr<Json> ParseJsonObject(absl::string_view text);

// Compact text; bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& value);

// kInvalidArgument with reason "invalid_value" and `field`.
absl::Status InvalidField(absl::string_view field, absl::string_view message);

// Reads fields of one object. A field that is absent or null is unset. The
// first fault is kept, later ones are dropped: read all, then ask status().
class FieldReader {
 public:
  // `object` must outlive this. `path` is put before field names in errors.
  explicit FieldReader(const Json& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}

  // nullptr if unset.
  const Json* Find(const char* name) const;
  std::optional<bool> Bool(const char* name);
  std::optional<std::string> String(const char* name);
  // Finite, and finite as a float too.
  std::optional<float> Float(const char* name);
  // A whole number, also if written as 3.0.
  std::optional<int64_t> Integer(
      const char* name, int64_t low = std::numeric_limits<int64_t>::min(),
      int64_t high = std::numeric_limits<int64_t>::max());
  std::optional<uint32_t> Unsigned(const char* name);
  // Any signed or unsigned 64-bit number, as its 64 bits.
  std::optional<uint64_t> Bits64(const char* name);
  std::vector<TokenId> TokenIds(const char* name);
  // One string or an array of them.
  std::vector<std::string> Strings(const char* name);

  void Fail(const char* name, absl::string_view message);
  // The fault of a nested object's reader, if it has one.
  void Take(const absl::Status& nested) {
    if (status_.ok()) status_ = nested;
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& object_;
  const std::string path_;
  absl::Status status_;
};

// Empty optional if `value` is not an array of token ids.
std::optional<std::vector<TokenId>> TokenArray(const Json& value);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_JSON_READER_H_
