// Byte-pair merges over the bytes of one piece of text.
// Immutable after Create; thread-safe.
#ifndef BATON_SERVICES_TEXT_BYTE_PAIR_ENCODER_H_
#define BATON_SERVICES_TEXT_BYTE_PAIR_ENCODER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/ids.h"

namespace baton::text {

class BytePairEncoder {
 public:
  // Bytes of a token, by id; tokens that text must never become are empty.
  using Vocabulary = std::vector<std::string>;

  // `merges`: "left right" in the byte alphabet, best first. Errors:
  // kInvalidArgument naming the entry that is not a pair.
  static absl::StatusOr<BytePairEncoder> Create(
      const Vocabulary& vocabulary, const std::vector<std::string>& merges,
      bool ignores_merges);

  // A token, or (from the vocabulary's size on) text that only merges know.
  using SymbolId = uint32_t;
  struct Symbol {
    SymbolId id = 0;
    int previous = -1;
    int next = -1;
    uint32_t length = 0;  // bytes; 0 = merged into its left neighbour
  };
  struct Candidate {
    uint32_t rank = 0;
    int left = 0;
    int right = 0;
    uint32_t length = 0;  // of the result
    SymbolId result = 0;
  };
  // Buffers that live across the pieces of one text. A value is used by one
  // thread at a time.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Appends the tokens of `piece`. Bytes for which the vocabulary has no token
  // are left out, as there is nothing to stand for them. Time is
  // O(n log n) in the bytes of the piece.
  void Encode(absl::string_view piece, Scratch& scratch,
              std::vector<TokenId>& out) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    SymbolId result = 0;
  };

  BytePairEncoder() = default;
  SymbolId Intern(absl::string_view bytes);
  absl::Status AddMerge(size_t rank, absl::string_view merge);
  void AddCandidate(const std::vector<Symbol>& symbols, int left, int right,
                    std::vector<Candidate>& heap) const;
  void MergeAll(Scratch& scratch) const;
  void Emit(SymbolId id, std::vector<TokenId>& out) const;

  uint32_t vocabulary_size_ = 0;
  bool ignores_merges_ = false;
  absl::flat_hash_map<std::string, SymbolId> symbol_of_;
  std::array<SymbolId, 256> symbol_of_byte_{};
  absl::flat_hash_map<uint64_t, Merge> merges_;  // by left << 32 | right
  std::vector<std::string> extra_;  // text of ids from vocabulary_size_ on
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_BYTE_PAIR_ENCODER_H_
