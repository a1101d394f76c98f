// A model file that nobody could serve is refused where it is named: by the
// worker that is to load it and by `baton doctor`, in one line that says what
// is wrong, before a gateway ever hears of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "services/cli/cluster/child_process.h"
#include "tests/support/cluster_process.h"

namespace baton {
namespace {

using cli::ChildProcess;
using ::testing::HasSubstr;

constexpr char kModel[] = BATON_MODELS_DIR "/tiny-llama-Q8_0.gguf";

struct Outcome {
  std::string ending;
  std::string output;
};

Outcome Run(const char* program, std::vector<std::string> arguments) {
  ChildProcess::Options options;
  options.binary = absl::StrCat(BATON_BINARY_DIR, "/", program);
  options.arguments = std::move(arguments);
  options.merge_error = true;
  auto child = ChildProcess::Start(options);
  EXPECT_TRUE(child.ok()) << child.status();
  Outcome outcome;
  const auto read = [&] {
    for (const std::string& line : child->TakeLines()) {
      absl::StrAppend(&outcome.output, line, "\n");
    }
  };
  EXPECT_TRUE(testing_support::Await(
      [&] {
        read();
        return child->TryReap();
      },
      absl::Seconds(60)));
  read();
  outcome.ending = child->ending();
  return outcome;
}

Outcome Doctor(const std::string& model) {
  return Run("baton", {"doctor", "--model", model});
}
Outcome Worker(const std::string& model) {
  return Run("baton-worker", {"--model", model, "--grpc", "127.0.0.1:0",
                              "--http", "127.0.0.1:0", "--cache-dir", ""});
}

class UnusableModelTest : public ::testing::Test {
 protected:
  UnusableModelTest() {
    std::ifstream file(kModel, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    bytes_ = text.str();
    path_ = absl::StrCat(testing::TempDir(), "/unusable.gguf");
  }
  ~UnusableModelTest() override { std::filesystem::remove(path_); }

  // The bytes of a key's value, after its type.
  char* ValueOf(const std::string& key) {
    const size_t at = bytes_.find(key);
    EXPECT_NE(at, std::string::npos) << key;
    return bytes_.data() + at + key.size() + sizeof(uint32_t);
  }
  void SetUnsigned(const std::string& key, uint32_t value) {
    std::memcpy(ValueOf(key), &value, sizeof(value));
  }
  void ExpectRefused(const std::string& reason) {
    std::ofstream(path_, std::ios::binary) << bytes_;
    const Outcome doctor = Doctor(path_);
    EXPECT_EQ(doctor.ending, "exit code 1");
    EXPECT_THAT(doctor.output, HasSubstr("FAIL"));
    EXPECT_THAT(doctor.output, HasSubstr(reason));
    const Outcome worker = Worker(path_);
    EXPECT_EQ(worker.ending, "exit code 1");
    EXPECT_THAT(worker.output,
                HasSubstr(absl::StrCat("baton-worker: ", path_, ": ")));
    EXPECT_THAT(worker.output, HasSubstr(reason));
  }

  std::string bytes_;
  std::string path_;
};

TEST_F(UnusableModelTest, GoodOneIsTaken) {
  EXPECT_EQ(Doctor(kModel).ending, "exit code 0");
}

TEST_F(UnusableModelTest, UnknownPretokenizerIsNamed) {
  // The string's length stays.
  char* value = ValueOf("tokenizer.ggml.pre") + sizeof(uint64_t);
  std::memcpy(value, "nope", 4);
  ExpectRefused("pre-tokenizer \"nope");
}

TEST_F(UnusableModelTest, IdsOutsideTheVocabularyAreNamed) {
  const std::string whole = bytes_;
  for (const char* key :
       {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    bytes_ = whole;
    SetUnsigned(key, 65536);
    ExpectRefused(key);
  }
}

TEST_F(UnusableModelTest, FileWithoutTensorsIsNoModel) {
  std::memset(bytes_.data() + 8, 0, sizeof(uint64_t));  // the tensors' count
  ExpectRefused("tensor");
}

TEST_F(UnusableModelTest, UnknownArchitectureIsNamed) {
  char* value = ValueOf("general.architecture") + sizeof(uint64_t);
  std::memcpy(value, "mamba", 5);  // as long as "llama"
  ExpectRefused("architecture mamba");
}

}  // namespace
}  // namespace baton
