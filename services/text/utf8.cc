#include "services/text/utf8.h"

namespace baton::text {
namespace {

struct Lead {
  size_t length = 0;  // 0: no sequence starts with this byte
  // Bounds of the second byte; the later ones are always 80 to BF.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

// Table 3-7 of the Unicode standard.
Lead ReadLead(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step ReadUtf8(absl::string_view text) {
  const uint8_t first = static_cast<uint8_t>(text[0]);
  const Lead lead = ReadLead(first);
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1, 0};
  if (lead.length == 1) return {Utf8Kind::kValid, 1, first};
  uint32_t code_point = first & (0x7Fu >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i, 0};
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::kInvalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {Utf8Kind::kValid, lead.length, code_point};
}

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const Utf8Step step = ReadUtf8(text.substr(length));
    if (step.kind != Utf8Kind::kValid) break;
    length += step.length;
  }
  return length;
}

}  // namespace baton::text
