// The tokenizer against ids that llama.cpp gives: the vectors it publishes
// with its vocabularies, and those of tools/oracle for the demo model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_split.h"
#include "services/text/tokenizer.h"

namespace baton::text {
namespace {

// CPU time of the process: wall time would measure the neighbours.
double CpuMilliseconds() { return 1e3 * std::clock() / CLOCKS_PER_SEC; }

std::unique_ptr<Tokenizer> Load(const std::string& path) {
  auto header = gguf::GgufHeader::FromFile(path);
  EXPECT_TRUE(header.ok()) << header.status();
  if (!header.ok()) return nullptr;
  auto tokenizer = Tokenizer::Create(**header);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class PublishedVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedVectors, AgreeOnEveryLine) {
  const std::string base =
      std::string(BATON_LLAMA_DIR "/models/ggml-vocab-") + GetParam() + ".gguf";
  const auto tokenizer = Load(base);
  ASSERT_NE(tokenizer, nullptr);
  const std::string input_file = ReadFile(base + ".inp");
  const std::string output_file = ReadFile(base + ".out");
  // Every text ends with a separator and every line of ids with a line break;
  // what follows the last of them is no text.
  std::vector<std::string> inputs =
      absl::StrSplit(input_file, "\n__ggml_vocab_test__\n");
  std::vector<std::string> outputs = absl::StrSplit(output_file, '\n');
  inputs.pop_back();
  outputs.pop_back();
  ASSERT_EQ(inputs.size(), outputs.size());
  ASSERT_GT(inputs.size(), 40u);
  size_t compared = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<TokenId> expected;
    std::istringstream ids(outputs[i]);
    for (TokenId id; ids >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer->Encode(inputs[i], false, false), expected)
        << "input " << i << ": " << inputs[i];
    compared += expected.size();
  }
  EXPECT_GT(compared, 300u);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, PublishedVectors,
                         ::testing::Values("gpt-2", "llama-bpe", "qwen2",
                                           "qwen35"));

TEST(SmolLmGolden, AgreesOnEveryLine) {
  const auto tokenizer = Load(BATON_DEMO_MODEL);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream golden(BATON_SOURCE_DIR "/tests/golden/tokenizer/smollm.jsonl");
  int lines = 0;
  for (std::string line; std::getline(golden, line); ++lines) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    const std::string text = entry.at("text");
    EXPECT_EQ(tokenizer->Encode(text, false, entry.at("parse_special")),
              entry.at("ids").get<std::vector<TokenId>>())
        << line;
  }
  EXPECT_GE(lines, 500);
}

// The bounds catch a quadratic step, not a slow machine or a sanitizer.
TEST(TokenizerSpeed, LongTextsAndLargeVocabulariesAreFast) {
  double start = CpuMilliseconds();
  const auto tokenizer = Load(BATON_LLAMA_DIR "/models/ggml-vocab-qwen2.gguf");
  ASSERT_NE(tokenizer, nullptr);
  const double create_ms = CpuMilliseconds() - start;
  const std::string code =
      ReadFile(BATON_LLAMA_DIR "/src/llama-vocab.cpp").substr(0, 100'000);
  start = CpuMilliseconds();
  EXPECT_GT(tokenizer->Encode(code, false, true).size(), 10'000u);
  const double code_ms = CpuMilliseconds() - start;
  // One piece of 100 KB, and white space without an end.
  start = CpuMilliseconds();
  tokenizer->Encode(std::string(100'000, 'a'), false, true);
  tokenizer->Encode(std::string(100'000, ' ') + "x", false, true);
  const double hostile_ms = CpuMilliseconds() - start;
  std::printf("create %.0f ms, 100 KB of code %.1f ms, hostile %.1f ms\n",
              create_ms, code_ms, hostile_ms);
  EXPECT_LT(create_ms, 10'000);
  EXPECT_LT(code_ms, 1'000);
  EXPECT_LT(hostile_ms, 2'000);
}

}  // namespace
}  // namespace baton::text
