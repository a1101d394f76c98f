#include "services/text/byte_pair_encoder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/text/byte_alphabet.h"

namespace baton::text {
namespace {

uint64_t PairKey(uint32_t left, uint32_t right) {
  return static_cast<uint64_t>(left) << 32 | right;
}

}  // namespace

absl::StatusOr<BytePairEncoder> BytePairEncoder::Create(
    const Vocabulary& vocabulary, const std::vector<std::string>& merges,
    bool ignores_merges) {
  BytePairEncoder encoder;
  encoder.vocabulary_size_ = static_cast<uint32_t>(vocabulary.size());
  encoder.ignores_merges_ = ignores_merges;
  encoder.symbol_of_.reserve(vocabulary.size());
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary[id].empty()) continue;
    encoder.symbol_of_.insert_or_assign(vocabulary[id],
                                        static_cast<SymbolId>(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    encoder.symbol_of_byte_[byte] = encoder.Intern(absl::string_view(&text, 1));
  }
  encoder.merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    BATON_RETURN_IF_ERROR(encoder.AddMerge(rank, merges[rank]));
  }
  return encoder;
}

absl::Status BytePairEncoder::AddMerge(size_t rank, absl::string_view merge) {
  // From 1: the first character may itself be a space in damaged files.
  const size_t space = merge.find(' ', 1);
  if (space == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.ggml.merges: entry ", rank, " is not a pair"));
  }
  const std::optional<std::string> left =
      BytesOfAlphabet(merge.substr(0, space));
  const std::optional<std::string> right =
      BytesOfAlphabet(merge.substr(space + 1));
  // Text outside the alphabet never arises from bytes: no merge applies to it.
  if (!left.has_value() || !right.has_value()) return absl::OkStatus();
  const uint64_t key = PairKey(Intern(*left), Intern(*right));
  const SymbolId result = Intern(absl::StrCat(*left, *right));
  merges_.try_emplace(key, Merge{static_cast<uint32_t>(rank), result});
  return absl::OkStatus();
}

BytePairEncoder::SymbolId BytePairEncoder::Intern(absl::string_view bytes) {
  const auto it = symbol_of_.find(bytes);
  if (it != symbol_of_.end()) return it->second;
  const auto id = static_cast<SymbolId>(vocabulary_size_ + extra_.size());
  symbol_of_.emplace(bytes, id);
  extra_.emplace_back(bytes);
  return id;
}

void BytePairEncoder::Encode(absl::string_view piece, Scratch& scratch,
                             std::vector<TokenId>& out) const {
  if (ignores_merges_) {
    const auto it = symbol_of_.find(piece);
    if (it != symbol_of_.end() && it->second < vocabulary_size_) {
      out.push_back(static_cast<TokenId>(it->second));
      return;
    }
  }
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.resize(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) {
    symbols[i].id = symbol_of_byte_[static_cast<uint8_t>(piece[i])];
    symbols[i].previous = static_cast<int>(i) - 1;
    symbols[i].next = i + 1 < piece.size() ? static_cast<int>(i) + 1 : -1;
    symbols[i].length = 1;
  }
  MergeAll(scratch);
  for (const Symbol& symbol : symbols) {
    if (symbol.length > 0) Emit(symbol.id, out);
  }
}

void BytePairEncoder::AddCandidate(const std::vector<Symbol>& symbols, int left,
                                   int right,
                                   std::vector<Candidate>& heap) const {
  if (left < 0 || right < 0) return;
  const auto it = merges_.find(PairKey(symbols[left].id, symbols[right].id));
  if (it == merges_.end()) return;
  heap.push_back({it->second.rank, left, right,
                  symbols[left].length + symbols[right].length,
                  it->second.result});
}

// Always the pair of lowest rank, the leftmost first among equals.
void BytePairEncoder::MergeAll(Scratch& scratch) const {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  heap.clear();
  for (size_t i = 1; i < symbols.size(); ++i) {
    AddCandidate(symbols, static_cast<int>(i) - 1, static_cast<int>(i), heap);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    // A side that merged since then has another length, or none.
    if (left.length == 0 || right.length == 0 ||
        left.length + right.length != best.length) {
      continue;
    }
    left.id = best.result;
    left.length = best.length;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) symbols[left.next].previous = best.left;
    for (const auto& [a, b] : {std::pair(left.previous, best.left),
                               std::pair(best.left, left.next)}) {
      const size_t before = heap.size();
      AddCandidate(symbols, a, b, heap);
      if (heap.size() > before) {
        std::push_heap(heap.begin(), heap.end(), later);
      }
    }
  }
}

void BytePairEncoder::Emit(SymbolId id, std::vector<TokenId>& out) const {
  if (id < vocabulary_size_) {
    out.push_back(static_cast<TokenId>(id));
    return;
  }
  for (const char byte : extra_[id - vocabulary_size_]) {
    const SymbolId symbol = symbol_of_byte_[static_cast<uint8_t>(byte)];
    if (symbol < vocabulary_size_) out.push_back(static_cast<TokenId>(symbol));
  }
}

}  // namespace baton::text
