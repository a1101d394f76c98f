#include "services/cli/bench/load.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/base/status_macros.h"
#include "services/cli/base/read_file.h"

namespace baton::cli {
namespace {

// Common short words: about one token each in most vocabularies.
constexpr std::array<const char*, 32> kWords = {
    "the",   "river", "stone", "light", "after",  "green", "house", "music",
    "water", "small", "train", "paper", "winter", "hand",  "glass", "north",
    "field", "black", "story", "wind",  "table",  "cloud", "young", "road",
    "heart", "seven", "plant", "voice", "early",  "metal", "dance", "bread"};

// SplitMix64: the standard library's distributions differ between versions,
// and a seed must mean the same load everywhere.
class Sequence {
 public:
  explicit Sequence(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

void AppendWords(uint64_t seed, uint32_t count, std::string* out) {
  Sequence sequence(seed);
  for (uint32_t i = 0; i < count; ++i) {
    if (!out->empty()) out->push_back(' ');
    out->append(kWords[sequence.Next() % kWords.size()]);
  }
}

}  // namespace

std::string MakePrompt(uint64_t seed, uint32_t request, uint32_t words,
                       uint32_t shared_words) {
  const uint32_t shared = std::min(words, shared_words);
  std::string prompt;
  AppendWords(seed, shared, &prompt);
  const uint64_t own = Sequence(seed ^ (uint64_t{request} + 1)).Next();
  AppendWords(own, words - shared, &prompt);
  return prompt;
}

absl::StatusOr<std::vector<std::string>> ReadPromptFile(
    const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> prompts =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no prompts"));
  }
  return prompts;
}

std::vector<absl::Duration> PoissonArrivals(uint64_t seed, double rate,
                                            uint32_t requests) {
  Sequence sequence(seed ^ 0x5bd1e9955bd1e995);
  std::vector<absl::Duration> arrivals;
  double at = 0;
  for (uint32_t i = 0; i < requests; ++i) {
    // (0, 1]: the logarithm of zero would be an endless gap.
    const double uniform =
        (static_cast<double>(sequence.Next() >> 11) + 1) * 0x1p-53;
    at += -std::log(uniform) / rate;
    arrivals.push_back(absl::Seconds(at));
  }
  return arrivals;
}

}  // namespace baton::cli
