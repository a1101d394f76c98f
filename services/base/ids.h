// Strong types for the identities that travel through the cluster, so that a
// lease can never be passed where an epoch is meant. Values; thread-compatible.
#ifndef BATON_SERVICES_BASE_IDS_H_
#define BATON_SERVICES_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace baton {

// A string with a meaning. `Tag` makes each a type of its own.
template <typename Tag>
class StringId {
 public:
  StringId() = default;
  explicit StringId(std::string value) : value_(std::move(value)) {}
  const std::string& value() const { return value_; }
  bool empty() const { return value_.empty(); }
  auto operator<=>(const StringId&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const StringId& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  std::string value_;
};

// A 64-bit number with a meaning. Zero is "none".
template <typename Tag>
class NumberId {
 public:
  constexpr NumberId() = default;
  constexpr explicit NumberId(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }
  constexpr explicit operator bool() const { return value_ != 0; }
  auto operator<=>(const NumberId&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const NumberId& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  uint64_t value_ = 0;
};

using RequestId = StringId<struct RequestIdTag>;
using HandoffId = StringId<struct HandoffIdTag>;
using WorkerId = StringId<struct WorkerIdTag>;
using LeaseId = NumberId<struct LeaseIdTag>;
// A process's boot epoch: random, drawn at start, never reused.
using Epoch = NumberId<struct EpochTag>;
// Rises each time an object's bytes are replaced or freed.
using Generation = NumberId<struct GenerationTag>;
using SequenceId = NumberId<struct SequenceIdTag>;

// A token of the model's vocabulary; never negative in a valid request.
using TokenId = int32_t;

}  // namespace baton

#endif  // BATON_SERVICES_BASE_IDS_H_
