// The ways to draft, by the names that flags, requests and metrics use.
#ifndef BATON_SERVICES_BASE_DRAFT_METHOD_H_
#define BATON_SERVICES_BASE_DRAFT_METHOD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

enum class DraftMethod : uint8_t { kNgram, kMtp };
// In the order in which they are asked.
inline constexpr DraftMethod kDraftMethods[] = {DraftMethod::kNgram,
                                                DraftMethod::kMtp};
// "ngram", "mtp".
absl::string_view DraftMethodName(DraftMethod method);

// A set of them.
class DraftMethods {
 public:
  constexpr DraftMethods() = default;
  static constexpr DraftMethods All() {
    DraftMethods all;
    for (const DraftMethod method : kDraftMethods) all.Add(method);
    return all;
  }
  // "none", or names with commas between: "ngram,mtp". Errors:
  // kInvalidArgument.
  static absl::StatusOr<DraftMethods> Parse(absl::string_view names);

  constexpr void Add(DraftMethod method) { bits_ |= Bit(method); }
  constexpr bool Has(DraftMethod method) const { return bits_ & Bit(method); }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const DraftMethods&) const = default;
  // As Parse takes them.
  std::string Names() const;

 private:
  static constexpr uint8_t Bit(DraftMethod method) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(method));
  }
  uint8_t bits_ = 0;
};

}  // namespace baton

#endif  // BATON_SERVICES_BASE_DRAFT_METHOD_H_
