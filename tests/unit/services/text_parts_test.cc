// The tokenizer's parts: UTF-8, the byte alphabet, pre-tokenizers, special
// tokens and stop strings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/text/byte_alphabet.h"
#include "services/text/pretokenizer.h"
#include "services/text/special_tokens.h"
#include "services/text/stop_matcher.h"
#include "services/text/utf8.h"
#include "tests/unit/services/text_vocabulary_bytes.h"

namespace baton::text {
namespace {

using ::testing::ElementsAre;

TEST(Utf8Test, ReadsTheBoundsOfEveryLength) {
  const struct {
    absl::string_view bytes;
    uint32_t code_point;
  } kValid[] = {{absl::string_view("\0", 1), 0},
                {"\x7F", 0x7F},
                {"\xC2\x80", 0x80},
                {"\xDF\xBF", 0x7FF},
                {"\xE0\xA0\x80", 0x800},
                {"\xED\x9F\xBF", 0xD7FF},
                {"\xEE\x80\x80", 0xE000},
                {"\xEF\xBF\xBF", 0xFFFF},
                {"\xF0\x90\x80\x80", 0x10000},
                {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
  for (const auto& valid : kValid) {
    const Utf8Step step = ReadUtf8(valid.bytes);
    EXPECT_EQ(step.kind, Utf8Kind::kValid);
    EXPECT_EQ(step.length, valid.bytes.size());
    EXPECT_EQ(step.code_point, valid.code_point);
    for (size_t cut = 1; cut < valid.bytes.size(); ++cut) {
      EXPECT_EQ(ReadUtf8(valid.bytes.substr(0, cut)).kind,
                Utf8Kind::kIncomplete);
    }
  }
}

TEST(Utf8Test, RefusesOverlongSurrogatesAndTooLarge) {
  for (absl::string_view bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE",
        "\xFF", "\xE4z"}) {
    EXPECT_EQ(ReadUtf8(bytes).kind, Utf8Kind::kInvalid);
    EXPECT_EQ(ValidUtf8Prefix(bytes), 0u);
  }
  EXPECT_EQ(ReadUtf8("\xE4\xBDz").length, 2u);
  EXPECT_EQ(ValidUtf8Prefix("ab\xE4\xBD\xA0\xFFz"), 5u);
}

TEST(ByteAlphabetTest, SpellsEveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(BytesOfAlphabet(SmallVocabulary::ByteName(byte)),
              std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(BytesOfAlphabet("\u0120a\u010A"), " a\n");
  EXPECT_EQ(BytesOfAlphabet("a b"), std::nullopt);  // a bare space
  EXPECT_EQ(BytesOfAlphabet("\u0144"), std::nullopt);
  EXPECT_EQ(BytesOfAlphabet("\xC4"), std::nullopt);
}

std::vector<absl::string_view> Split(absl::string_view family,
                                     absl::string_view text) {
  auto pretokenizer = Pretokenizer::Create(family);
  EXPECT_TRUE(pretokenizer.ok()) << pretokenizer.status();
  std::vector<absl::string_view> pieces;
  if (pretokenizer.ok()) (*pretokenizer)->Split(text, pieces);
  return pieces;
}

TEST(PretokenizerTest, FamiliesDifferInDigits) {
  EXPECT_THAT(Split("gpt-2", "a 12345"), ElementsAre("a", " 12345"));
  EXPECT_THAT(Split("smollm", "a 123"), ElementsAre("a", " ", "1", "2", "3"));
  EXPECT_THAT(Split("llama-bpe", "a 12345"),
              ElementsAre("a", " ", "123", "45"));
  EXPECT_THAT(Split("qwen2", "a 12"), ElementsAre("a", " ", "1", "2"));
  EXPECT_THAT(Split("default", "a 12345"), ElementsAre("a", " ", "123", "45"));
}

TEST(PretokenizerTest, FamiliesDifferInMarksAndContractions) {
  EXPECT_THAT(Split("qwen2", "e\u0301a"), ElementsAre("e", "\u0301a"));
  EXPECT_THAT(Split("qwen35", "e\u0301a"), ElementsAre("e\u0301a"));
  EXPECT_THAT(Split("gpt-2", "it's IT'S"),
              ElementsAre("it", "'s", " IT", "'", "S"));
  EXPECT_THAT(Split("qwen2", "it's IT'S"),
              ElementsAre("it", "'s", " IT", "'S"));
}

TEST(PretokenizerTest, LeavesTheLastSpaceToTheWord) {
  EXPECT_THAT(Split("gpt-2", "a   b  "), ElementsAre("a", "  ", " b", "  "));
  EXPECT_THAT(Split("llama-bpe", "a \n\n  b"),
              ElementsAre("a", " \n\n", " ", " b"));
  // U+180E is no white space, though PCRE2's \s says so.
  EXPECT_THAT(Split("gpt-2", "a\u180E\u180E"),
              ElementsAre("a", "\u180E\u180E"));
}

TEST(PretokenizerTest, KeepsInvalidBytesApart) {
  EXPECT_THAT(Split("gpt-2", "ab\xFF\xFE cd\xE4\xBD"),
              ElementsAre("ab", "\xFF", "\xFE", " cd", "\xE4\xBD"));
}

TEST(PretokenizerTest, RefusesUnknownFamiliesByName) {
  const absl::Status status = Pretokenizer::Create("tekken").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(), ::testing::HasSubstr("tekken"));
}

std::vector<TokenId> Found(const SpecialTokens& special, absl::string_view text,
                           std::vector<SpecialTokens::Range> trusted) {
  std::vector<TokenId> ids;
  size_t covered = 0;
  for (const auto& fragment : special.Partition(text, trusted)) {
    EXPECT_EQ(fragment.begin, covered);
    EXPECT_LT(fragment.begin, fragment.end);
    covered = fragment.end;
    if (fragment.token >= 0) ids.push_back(fragment.token);
  }
  EXPECT_EQ(covered, text.size());
  return ids;
}

TEST(SpecialTokensTest, LongerTokensComeFirst) {
  const SpecialTokens special(
      {{"ab", 1, true}, {"abc", 2, true}, {"cdef", 3, false}, {"", 4, false}});
  EXPECT_THAT(Found(special, "xabcabx", {{0, 7}}), ElementsAre(2, 1));
  // The longest wins where two overlap, though it starts later.
  EXPECT_THAT(Found(special, "abcdef", {{0, 6}}), ElementsAre(1, 3));
  EXPECT_THAT(Found(special, "", {}), ElementsAre());
}

TEST(SpecialTokensTest, ControlTokensNeedOneTrustedRange) {
  const SpecialTokens special({{"ab", 1, true}, {"cd", 2, false}});
  EXPECT_THAT(Found(special, "abcdab", {}), ElementsAre(2));
  EXPECT_THAT(Found(special, "abcdab", {{0, 2}}), ElementsAre(1, 2));
  EXPECT_THAT(Found(special, "abcdab", {{3, 6}}), ElementsAre(2, 1));
  EXPECT_THAT(Found(special, "abcdab", {{0, 1}, {5, 6}}), ElementsAre(2));
}

struct Answer {
  std::string text;
  bool stopped = false;
  bool operator==(const Answer&) const = default;
};

// Feeds `text` in pieces that end after the bytes set in `cuts`.
Answer Feed(const std::vector<std::string>& stops, const std::string& text,
            uint32_t cuts) {
  StopMatcher matcher(stops);
  Answer answer;
  std::string piece;
  for (size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if ((cuts >> i & 1) == 0 && i + 1 < text.size()) continue;
    const StopMatcher::Result result = matcher.Append(piece);
    piece.clear();
    answer.text += result.text;
    if (result.stopped) {
      answer.stopped = true;
      return answer;
    }
  }
  answer.text += matcher.Flush();
  return answer;
}

TEST(StopMatcherTest, GivesTheSameHoweverTheTextIsCut) {
  const struct {
    std::vector<std::string> stops;
    std::string text;
    Answer expected;
  } kCases[] = {
      {{"END"}, "hello END x", {"hello ", true}},
      {{"aab"}, "aaaab", {"aa", true}},
      {{"abab"}, "ababab", {"", true}},
      {{"abcd", "bc"}, "xabcd", {"xa", true}},
      {{"bc", "abc"}, "xabcd", {"x", true}},
      {{"abcd", "x"}, "abcx", {"abc", true}},
      {{"\n\nUser:"}, "a\n\nUse\n", {"a\n\nUse\n", false}},
      {{""}, "abc", {"abc", false}},
      {{}, "abc", {"abc", false}},
      {{"xyz"}, "xyxyxy", {"xyxyxy", false}},
      {{"\u4f60"}, "a\u4f5c\u4f60", {"a\u4f5c", true}},
  };
  for (const auto& c : kCases) {
    for (uint32_t cuts = 0; cuts < 1u << (c.text.size() - 1); ++cuts) {
      const Answer answer = Feed(c.stops, c.text, cuts);
      ASSERT_EQ(answer.text, c.expected.text) << c.text << " cuts " << cuts;
      ASSERT_EQ(answer.stopped, c.expected.stopped) << c.text;
    }
  }
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"</s>"});
  EXPECT_EQ(matcher.Append("a<").text, "a");
  EXPECT_EQ(matcher.Append("b").text, "<b");
  EXPECT_EQ(matcher.Append("</s").text, "");
  EXPECT_EQ(matcher.Flush(), "</s");
  EXPECT_EQ(matcher.Flush(), "");
}

}  // namespace
}  // namespace baton::text
