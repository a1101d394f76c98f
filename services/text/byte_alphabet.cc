#include "services/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "services/text/utf8.h"

namespace baton::text {
namespace {

// Bytes that are printable in Latin-1 stand for themselves.
constexpr bool IsItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

// The others, in order, are the characters from U+0100 on.
constexpr int kAlphabetEnd = 0x144;

constexpr std::array<int16_t, kAlphabetEnd> MakeByteOf() {
  std::array<int16_t, kAlphabetEnd> byte_of{};
  for (int16_t& byte : byte_of) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    byte_of[IsItself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return byte_of;
}

constexpr std::array<int16_t, kAlphabetEnd> kByteOf = MakeByteOf();

}  // namespace

std::optional<std::string> BytesOfAlphabet(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = ReadUtf8(text);
    if (step.kind != Utf8Kind::kValid || step.code_point >= kAlphabetEnd ||
        kByteOf[step.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kByteOf[step.code_point]));
    text.remove_prefix(step.length);
  }
  return bytes;
}

}  // namespace baton::text
