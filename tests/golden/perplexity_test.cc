// `baton perplexity` against llama.cpp's llama-perplexity on the same text
// (tests/golden/perplexity, made by tools/oracle/make_golden_perplexity.sh),
// and against itself.
//
// The F32 model has nothing that rounds, so there a wrong chunk, position or
// target shows at once. The demo model is quantised: an order of additions
// moves logits by some tenths (see golden_logits_test.cc), to either side, and
// a mean over the text keeps what is left of that. By chunk the two programs
// differ by 0.6 % (standard deviation), so over 23 chunks by 0.13 %.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/cluster/child_process.h"
#include "tests/support/await.h"

namespace baton {
namespace {

using cli::ChildProcess;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_support::Await;

constexpr absl::Duration kPatience = absl::Seconds(400);

std::string Folder() {
  return absl::StrCat(BATON_SOURCE_DIR, "/tests/golden/perplexity/");
}

std::string Text() { return Folder() + "opticks.txt"; }

std::string TinyModel(const std::string& type) {
  return absl::StrCat(BATON_MODELS_DIR, "/tiny-llama-", type, ".gguf");
}

std::string Flag(const std::string& name, const nlohmann::json& golden) {
  return absl::StrCat("--", name, "=", golden[name].get<int>());
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

class PerplexityTest : public testing::Test {
 protected:
  PerplexityTest() {
    std::string path = testing::TempDir() + "/perplexity-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~PerplexityTest() override { std::filesystem::remove_all(folder_); }

  // Returns how it ended.
  std::string Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "perplexity");
    std::filesystem::remove(ErrorPath());
    auto child =
        ChildProcess::Start({.binary = absl::StrCat(BATON_BINARY_DIR, "/baton"),
                             .arguments = arguments,
                             .log_path = ErrorPath()});
    if (!child.ok()) return child.status().ToString();
    const bool ended = Await(
        [&] {
          for (const std::string& line : child->TakeLines()) {
            std::printf("%s\n", line.c_str());
          }
          return child->TryReap();
        },
        kPatience);
    return ended ? child->ending() : "still running";
  }

  // The report of a run that must succeed.
  nlohmann::json Report(std::vector<std::string> arguments) {
    arguments.push_back("--json=" + folder_ + "/report.json");
    arguments.push_back("--text=" + Text());
    EXPECT_EQ(Run(arguments), "exit code 0") << Errors();
    return ReadJson(folder_ + "/report.json");
  }

  std::string ErrorPath() const { return folder_ + "/stderr"; }

  std::string Errors() const {
    std::ifstream file(ErrorPath());
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::string folder_;
};

struct GoldenCase {
  std::string name;
  std::string model;
  double tolerance;  // relative
};

class GoldenPerplexity : public PerplexityTest,
                         public testing::WithParamInterface<GoldenCase> {};

TEST_P(GoldenPerplexity, AgreesWithLlamaPerplexity) {
  const GoldenCase& which = GetParam();
  const nlohmann::json golden = ReadJson(Folder() + which.name + ".json");
  const double expected = golden["perplexity"];
  const nlohmann::json report =
      Report({"--model=" + which.model, Flag("context", golden),
              Flag("chunks", golden),
              "--kv-type=" + golden["kv_type"].get<std::string>()});
  EXPECT_EQ(report["chunks"], golden["chunks"]);
  const double ours = report["perplexity"]["value"];
  const double error = report["perplexity"]["standard_error"];
  std::printf("%s: PPL %.4f, llama-perplexity %.4f: %+.4f %%\n",
              which.name.c_str(), ours, expected, 100 * (ours / expected - 1));
  EXPECT_NEAR(ours, expected, which.tolerance * expected);
  EXPECT_NEAR(error, golden["standard_error"].get<double>(), 0.02 * error);
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenPerplexity,
    testing::Values(GoldenCase{"smollm2", BATON_DEMO_MODEL, 0.002},
                    GoldenCase{"tiny-llama-F32", TinyModel("F32"), 1e-5}),
    [](const auto& info) {
      return info.param.name == "smollm2" ? "Demo" : "TinyF32";
    });

// Two quantisations of one model. llama-perplexity stores the base's
// log-probabilities in 16 bits, and cuts them 16 below the largest: its
// perplexity of this base is no figure to compare with, its divergence is.
TEST_F(PerplexityTest, DivergenceAgreesWithLlamaPerplexity) {
  const nlohmann::json golden =
      ReadJson(Folder() + "tiny-llama-Q8_0-against-F32.json");
  const nlohmann::json report =
      Report({"--model=" + TinyModel("Q8_0"), "--against=" + TinyModel("F32"),
              Flag("context", golden), Flag("chunks", golden),
              "--kv-type=" + golden["kv_type"].get<std::string>()});
  const nlohmann::json& divergence = report["kl_divergence"];
  const auto expect_near = [&golden](const nlohmann::json& ours,
                                     const char* key, double tolerance) {
    const double expected = golden[key];
    std::printf("%s %.6f, llama-perplexity %.6f\n", key, ours.get<double>(),
                expected);
    EXPECT_NEAR(ours.get<double>(), expected, tolerance * expected) << key;
  };
  expect_near(divergence["mean_kld"]["value"], "mean_kld", 0.03);
  expect_near(divergence["mean_kld"]["standard_error"], "mean_kld_error", 0.05);
  expect_near(divergence["median_kld"], "median_kld", 0.03);
  expect_near(100 * divergence["same_top"]["value"].get<double>(),
              "same_top_percent", 0.01);
  expect_near(100 * divergence["same_top"]["standard_error"].get<double>(),
              "same_top_percent_error", 0.05);
}

TEST_F(PerplexityTest, AFileIsNotApartFromItself) {
  const nlohmann::json report =
      Report({"--model=" + TinyModel("Q4_K"), "--against=" + TinyModel("Q4_K"),
              "--chunks=2"});
  const nlohmann::json& divergence = report["kl_divergence"];
  EXPECT_EQ(divergence["mean_kld"]["value"], 0.0);
  EXPECT_EQ(divergence["largest_kld"], 0.0);
  EXPECT_EQ(divergence["same_top"]["value"], 1.0);
  EXPECT_EQ(divergence["rms_probability_difference"]["value"], 0.0);
  EXPECT_EQ(report["perplexity"], report["base_perplexity"]);
}

TEST_F(PerplexityTest, DivergenceGrowsWithTheQuantisation) {
  double last = 0;
  for (const char* type : {"Q8_0", "Q6_K", "Q4_K"}) {
    const nlohmann::json report =
        Report({absl::StrCat("--model=", TinyModel(type)),
                "--against=" + TinyModel("F32"), "--chunks=2"});
    const nlohmann::json& divergence = report["kl_divergence"];
    const double kld = divergence["mean_kld"]["value"];
    EXPECT_GT(kld, last) << type;
    EXPECT_LT(divergence["same_top"]["value"], 1.0);
    EXPECT_GT(divergence["rms_probability_difference"]["value"], 0.0);
    last = kld;
  }
}

// The texts and files that a person may get wrong: one line, at once.
TEST_F(PerplexityTest, SaysWhatIsWrong) {
  const std::string short_text = folder_ + "/short.txt";
  std::ofstream(short_text) << "Too short.\n";
  const std::string model = TinyModel("F32");
  struct Case {
    std::vector<std::string> arguments;
    std::string error;
  };
  for (const Case& wrong : std::vector<Case>{
           {{"--model=" + model, "--text=/nonexistent"},
            "/nonexistent: No such file or directory"},
           {{"--model=" + model, "--text=" + folder_}, "Is a directory"},
           {{"--model=" + model, "--text=" + short_text},
            "tokens are fewer than one context of 512"},
           {{"--model=" + model, "--text=" + Text(), "--context=4097"},
            "--context 4097 is longer than the model's context of 4096"},
           {{"--model=/nonexistent.gguf", "--text=" + Text()},
            "/nonexistent.gguf"},
           {{"--model=" + model, "--text=" + Text(),
             "--against=/nonexistent.gguf"},
            "/nonexistent.gguf"},
           {{"--model=" + model, "--text=" + Text(),
             absl::StrCat("--against=", BATON_DEMO_MODEL)},
            "its tokenizer gives this text other token ids"},
           {{"--model=" + model, "--text=" + Text(), "--chunks=1",
             "--context=64", "--json=/nonexistent/report.json"},
            "cannot write /nonexistent/report.json"}}) {
    SCOPED_TRACE(wrong.error);
    EXPECT_EQ(Run(wrong.arguments), "exit code 1");
    const std::string errors = Errors();
    const size_t last_line = errors.rfind("baton perplexity: ");
    ASSERT_NE(last_line, std::string::npos) << errors;
    EXPECT_THAT(errors.substr(last_line), HasSubstr(wrong.error));
    EXPECT_EQ(errors.find('\n', last_line), errors.size() - 1) << errors;
  }
  EXPECT_EQ(Run({"--model=" + model}), "exit code 78");
  EXPECT_THAT(Errors(), StartsWith("baton perplexity: "));
}

TEST_F(PerplexityTest, EndsWhenInterrupted) {
  auto child = ChildProcess::Start(
      {.binary = absl::StrCat(BATON_BINARY_DIR, "/baton"),
       .arguments = {"perplexity", absl::StrCat("--model=", BATON_DEMO_MODEL),
                     "--text=" + Text()},
       .log_path = ErrorPath()});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(Await(
      [&] {
        return Errors().find("chunk 1 of") != std::string::npos ||
               Errors().find("loading") != std::string::npos;
      },
      kPatience));
  child->Signal(SIGINT);
  ASSERT_TRUE(Await([&] { return child->TryReap(); }, kPatience));
  EXPECT_EQ(child->ending(), "exit code 130");
  EXPECT_THAT(Errors(), HasSubstr("baton perplexity: interrupted\n"));
}

}  // namespace
}  // namespace baton
