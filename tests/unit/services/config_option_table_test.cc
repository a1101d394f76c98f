#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_replace.h"
#include "services/config/option_table.h"

namespace baton::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Environment = std::map<std::string, std::string>;

// A table with one option of each kind, and what it parsed.
class Program {
 public:
  Program() {
    table_.AddString("model", &model, "The GGUF file.", 'm');
    table_.AddStrings("peer", &peers, "Addresses of other processes.");
    table_.AddChoice("role", &role, {"prefill", "decode"}, "What it does.");
    table_.AddBool("kvstore", &kvstore, "Use the store.");
    table_.AddUint("threads", &threads, 1, 256, "Compute threads.", 't');
    table_.AddDouble("share", &share, 0, 1, "Part of the memory.");
    table_.AddDuration("lease-ttl", &lease_ttl, "How long a lease lives.");
    table_.AddBytes("kv-memory", &kv_memory, "room for the cache");
  }

  OptionTable::Outcome Run(std::vector<const char*> arguments,
                           const Environment& environment = {}) {
    arguments.insert(arguments.begin(), "baton-worker");
    return table_.Parse(static_cast<int>(arguments.size()), arguments.data(),
                        environment);
  }

  OptionTable& table() { return table_; }

  std::string model;
  std::vector<std::string> peers;
  std::string role = "decode";
  bool kvstore = true;
  uint32_t threads = 4;
  double share = 0.5;
  absl::Duration lease_ttl = absl::Seconds(30);
  uint64_t kv_memory = uint64_t{2} << 30;

 private:
  OptionTable table_{"baton-worker", "worker", "Runs the model."};
};

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(OptionTableTest, KeepsDefaultsWhenNothingIsGiven) {
  Program program;
  const auto outcome = program.Run({});
  EXPECT_FALSE(outcome.exit);
  EXPECT_EQ(program.threads, 4u);
  EXPECT_EQ(program.role, "decode");
}

TEST(OptionTableTest, ReadsEveryKindFromFlags) {
  Program program;
  const auto outcome =
      program.Run({"-m", "a.gguf", "--peer", "x:1", "--peer=y:2", "--role",
                   "prefill", "--no-kvstore", "-t8", "--share=0.25",
                   "--lease-ttl", "1m30s", "--kv-memory=4GiB"});
  ASSERT_FALSE(outcome.exit) << outcome.output;
  EXPECT_EQ(program.model, "a.gguf");
  EXPECT_THAT(program.peers, ElementsAre("x:1", "y:2"));
  EXPECT_EQ(program.role, "prefill");
  EXPECT_FALSE(program.kvstore);
  EXPECT_EQ(program.threads, 8u);
  EXPECT_EQ(program.share, 0.25);
  EXPECT_EQ(program.lease_ttl, absl::Seconds(90));
  EXPECT_EQ(program.kv_memory, uint64_t{4} << 30);
}

TEST(OptionTableTest, ReadsEveryKindFromTheFile) {
  Program program;
  const std::string path = WriteFile("every_kind.yaml",
                                     "gateway:\n"
                                     "  anything: 1\n"
                                     "worker:\n"
                                     "  model: a b.gguf\n"
                                     "  peer: [x:1, y:2]\n"
                                     "  role: prefill\n"
                                     "  kvstore: no\n"
                                     "  threads: 8\n"
                                     "  share: 1\n"
                                     "  lease-ttl: 250ms\n"
                                     "  kv-memory: 512MiB\n");
  const auto outcome = program.Run({"--config", path.c_str()});
  ASSERT_FALSE(outcome.exit) << outcome.output;
  EXPECT_EQ(program.model, "a b.gguf");
  EXPECT_THAT(program.peers, ElementsAre("x:1", "y:2"));
  EXPECT_EQ(program.role, "prefill");
  EXPECT_FALSE(program.kvstore);
  EXPECT_EQ(program.threads, 8u);
  EXPECT_EQ(program.share, 1.0);
  EXPECT_EQ(program.lease_ttl, absl::Milliseconds(250));
  EXPECT_EQ(program.kv_memory, uint64_t{512} << 20);
}

TEST(OptionTableTest, AFlagWinsOverAVariableOverTheFileOverTheDefault) {
  const std::string path = WriteFile("precedence.yaml",
                                     "worker:\n"
                                     "  threads: 5\n"
                                     "  share: 0.1\n"
                                     "  model: file\n");
  Program program;
  const auto outcome =
      program.Run({"--threads", "7"}, {{"BATON_CONFIG", path},
                                       {"BATON_WORKER_THREADS", "6"},
                                       {"BATON_WORKER_SHARE", "0.2"},
                                       {"BATON_GATEWAY_UNRELATED", "1"}});
  ASSERT_FALSE(outcome.exit) << outcome.output;
  EXPECT_EQ(program.threads, 7u);
  EXPECT_EQ(program.share, 0.2);
  EXPECT_EQ(program.model, "file");
  const std::string origins = program.table().Origins();
  EXPECT_THAT(origins, HasSubstr("threads = 7 (flag --threads)\n"));
  EXPECT_THAT(origins,
              HasSubstr("share = 0.2 (environment BATON_WORKER_SHARE)\n"));
  EXPECT_THAT(origins, HasSubstr("model = file (" + path + ":4:3)\n"));
  EXPECT_THAT(origins, HasSubstr("role = decode (default)\n"));
}

TEST(OptionTableTest, ReportsEveryFaultOfEverySourceAtOnce) {
  const std::string path = WriteFile("faults.yaml",
                                     "worker:\n"
                                     "  modle: a.gguf\n"
                                     "  threads: [1, 2]\n"
                                     "  lease-ttl: 30\n"
                                     "kvstor:\n"
                                     "  x: 1\n");
  Program program;
  const auto outcome = program.Run(
      {"--config", path.c_str(), "--kv-memorry", "1", "--role", "both", "stray",
       "--share"},
      {{"BATON_WORKER_TREADS", "1"}, {"BATON_WORKER_KV_MEMORY", "much"}});
  EXPECT_TRUE(outcome.exit);
  EXPECT_EQ(outcome.code, kExitConfig);
  for (const std::string& fault : {
           path + ":2:3: unknown key \"modle\"; did you mean model?",
           path + ":3:3: threads takes one value, not a list",
           path + ":4:3: lease-ttl: \"30\" is not a duration",
           path + ":5:1: unknown section \"kvstor\"; did you mean \"kvstore\"?",
           std::string("flag --kv-memorry: unknown flag; did you mean "
                       "--kv-memory?"),
           std::string("flag --role: role: \"both\" is not one of prefill, "
                       "decode"),
           std::string("argument \"stray\": not expected"),
           std::string("flag --share: needs a value NUMBER"),
           std::string("environment BATON_WORKER_TREADS: unknown variable; did "
                       "you mean BATON_WORKER_THREADS?"),
           std::string("environment BATON_WORKER_KV_MEMORY: kv-memory: "
                       "\"much\" is not a size"),
       }) {
    EXPECT_THAT(outcome.output, HasSubstr(fault));
  }
  EXPECT_THAT(outcome.output, HasSubstr("10 configuration faults"));
}

TEST(OptionTableTest, RefusesAFileItCannotReadOrParse) {
  Program missing;
  const auto no_file = missing.Run({"--config", "/nonexistent/baton.yaml"});
  EXPECT_EQ(no_file.code, kExitConfig);
  EXPECT_THAT(no_file.output,
              HasSubstr("/nonexistent/baton.yaml: cannot read"));

  const std::string path =
      WriteFile("broken.yaml", "worker:\n  model: [a\n  x: }\n");
  Program broken;
  const auto outcome = broken.Run({}, {{"BATON_CONFIG", path}});
  EXPECT_EQ(outcome.code, kExitConfig);
  EXPECT_THAT(outcome.output, HasSubstr(path + ":3:"));

  Program directory;
  EXPECT_EQ(directory.Run({"--config", testing::TempDir().c_str()}).code,
            kExitConfig);
}

TEST(OptionTableTest, RefusesAKeyGivenTwiceAndAKeyWithoutValue) {
  const std::string path = WriteFile(
      "twice.yaml", "worker:\n  threads: 1\n  threads: 2\n  model:\n");
  Program program;
  const auto outcome = program.Run({"--config", path.c_str()});
  EXPECT_EQ(outcome.code, kExitConfig);
  EXPECT_THAT(outcome.output, HasSubstr(":3:3: \"threads\" is given twice"));
  EXPECT_THAT(outcome.output, HasSubstr(":4:3: \"model\" has no value"));
}

TEST(OptionTableTest, RefusesASecondDocument) {
  const std::string path = WriteFile(
      "documents.yaml", "worker:\n  threads: 1\n---\nworker:\n  bogus: 1\n");
  Program program;
  const auto outcome = program.Run({"--config", path.c_str()});
  EXPECT_EQ(outcome.code, kExitConfig);
  EXPECT_THAT(outcome.output, HasSubstr(":4:1: a second document"));
}

TEST(OptionTableTest, AMissingRequiredValueIsAFault) {
  Program program;
  program.table().Require("model");
  const auto outcome = program.Run({});
  EXPECT_EQ(outcome.code, kExitConfig);
  EXPECT_THAT(outcome.output, HasSubstr("model: required; give --model or "
                                        "BATON_WORKER_MODEL"));
  Program given;
  given.table().Require("model");
  EXPECT_FALSE(given.Run({}, {{"BATON_WORKER_MODEL", "a.gguf"}}).exit);
}

TEST(OptionTableTest, EveryWayInHearsTheCheckOfTheValuesTogether) {
  const std::vector<std::vector<const char*>> ways = {
      {}, {"--check-config"}, {"--print-config"}};
  for (const auto& way : ways) {
    Program program;
    program.table().SetCheck([&program] {
      return program.threads < 8
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("--threads 8 needs a reason");
    });
    const auto outcome = program.Run(way, {{"BATON_WORKER_THREADS", "9"}});
    EXPECT_TRUE(outcome.exit);
    EXPECT_EQ(outcome.code, kExitConfig);
    EXPECT_EQ(outcome.output, "baton-worker: --threads 8 needs a reason\n");
  }
}

TEST(OptionTableTest, TheCheckSeesOnlyValuesThatAreRightByThemselves) {
  Program program;
  int calls = 0;
  program.table().SetCheck([&calls] {
    ++calls;
    return absl::OkStatus();
  });
  EXPECT_EQ(program.Run({"-t", "0"}).code, kExitConfig);
  Program help;
  help.table().SetCheck([&calls] {
    ++calls;
    return absl::OkStatus();
  });
  EXPECT_EQ(help.Run({"--help"}).code, 0);
  EXPECT_EQ(help.Run({"--sample-config"}).code, 0);
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(help.Run({"--check-config"}).output, HasSubstr("is valid"));
  EXPECT_EQ(calls, 1);
}

TEST(OptionTableTest, OneFaultIsOneLine) {
  Program program;
  EXPECT_EQ(program.Run({"stray"}).output,
            "baton-worker: argument \"stray\": not expected\n");
}

TEST(OptionTableTest, KnowsTheFileItHasRead) {
  const std::string path = WriteFile("named.yaml", "worker:\n");
  Program by_flag, by_variable, none;
  by_flag.Run({"--config", path.c_str()}, {{"BATON_CONFIG", "/other"}});
  EXPECT_EQ(by_flag.table().config_file(), path);
  by_variable.Run({}, {{"BATON_CONFIG", path}});
  EXPECT_EQ(by_variable.table().config_file(), path);
  none.Run({});
  EXPECT_EQ(none.table().config_file(), "");
}

TEST(OptionTableTest, RefusesVariablesOfAMisspeltSection) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"BATON_GATEWY_HTTP", "BATON_GATEWAY_HTTP"},
      {"BATON_GATWEAY_HTTP", "BATON_GATEWAY_HTTP"},
      {"BATON_WORKERS_KV_MEMORY", "BATON_WORKER_KV_MEMORY"},
      {"BATON_KV_STORE_CAPACITY", "BATON_KVSTORE_CAPACITY"},
      {"BATON_CHATT_URL", "BATON_CHAT_URL"}};
  for (const auto& [given, meant] : wrong) {
    Program program;
    const auto outcome = program.Run({}, {{given, "x"}});
    EXPECT_EQ(outcome.code, kExitConfig) << given;
    EXPECT_THAT(outcome.output,
                HasSubstr(std::string("environment ") + given +
                          ": unknown section; did you mean " + meant + "?"));
  }
}

TEST(OptionTableTest, LeavesVariablesAloneThatAreNotConfiguration) {
  Program program;
  Environment environment;
  for (const char* name :
       {"BATON_CACHE", "BATON_JOBS", "BATON_TARGETS", "BATON_PYTHON",
        "BATON_MODEL_DIR", "BATON_KEEP_LOGS", "BATON_KV_MEMORY",
        "BATON_STORE_CAPACITY", "BATON_IMAGE", "BATON_GATEWAY_HTTP",
        "BATON_UP_MODEL", "BATON_WORKER", "BATON_GATEWY", "BATON_GATEWY_",
        "BATON_", "BATON__", "MY_BATON_GATEWY_HTTP"}) {
    environment[name] = "x";
  }
  const auto outcome = program.Run({}, environment);
  EXPECT_FALSE(outcome.exit) << outcome.output;
}

TEST(OptionTableTest, TheSectionAloneMakesNoVariableLookFamiliar) {
  Program program;
  const auto outcome = program.Run({}, {{"BATON_WORKER_FOO", "x"},
                                        {"BATON_WORKER_RULE", "x"},
                                        {"BATON_WORKER_KV_MEMROY", "x"}});
  EXPECT_THAT(outcome.output,
              HasSubstr("BATON_WORKER_FOO: unknown variable\n"));
  EXPECT_THAT(outcome.output, HasSubstr("did you mean BATON_WORKER_ROLE?"));
  EXPECT_THAT(outcome.output,
              HasSubstr("did you mean BATON_WORKER_KV_MEMORY?"));
}

TEST(OptionTableTest, HelpNamesEveryFlagInside80Columns) {
  Program program;
  const auto outcome = program.Run({"--help", "--bad"});
  EXPECT_TRUE(outcome.exit);
  EXPECT_EQ(outcome.code, 0);
  for (const char* text :
       {"-m, --model TEXT", "--peer TEXT...", "--role prefill|decode",
        "--[no-]kvstore", "-t, --threads N", "--share NUMBER",
        "--lease-ttl TIME", "--kv-memory SIZE",
        "room for the cache. Default: 2GiB.", "BATON_WORKER_<NAME>"}) {
    EXPECT_THAT(outcome.output, HasSubstr(text));
  }
  size_t start = 0;
  while (start < outcome.output.size()) {
    const size_t end = outcome.output.find('\n', start);
    EXPECT_LE(end - start, 80u) << outcome.output.substr(start, end - start);
    start = end + 1;
  }
}

TEST(OptionTableTest, TheSampleWithItsCommentsRemovedIsValid) {
  Program program;
  program.model = "it's: a \"name\"";
  Program sample;
  const std::string text = sample.Run({"--sample-config"}).output;
  EXPECT_THAT(text, HasSubstr("worker:\n"));
  EXPECT_THAT(text, HasSubstr("  # Compute threads.\n  #threads: 4\n"));
  const std::string path = WriteFile(
      "sample.yaml",
      absl::StrReplaceAll(text, {{"\n  #", "\n  "}, {"\n  # ", "\n  # "}}));
  Program reader;
  const auto outcome = reader.Run({"--config", path.c_str(), "--check-config"});
  EXPECT_EQ(outcome.code, 0) << outcome.output << text;
  EXPECT_THAT(outcome.output, HasSubstr("configuration is valid"));
}

TEST(OptionTableTest, PrintsOriginsOnlyWhenTheConfigurationIsValid) {
  Program good;
  EXPECT_THAT(good.Run({"--print-config", "-t", "9"}).output,
              HasSubstr("threads = 9 (flag --threads)"));
  Program bad;
  EXPECT_EQ(bad.Run({"--print-config", "-t", "0"}).code, kExitConfig);
}

TEST(OptionTableTest, CollectsPositionalArgumentsWhenAskedTo) {
  Program program;
  std::vector<std::string> files;
  program.table().AddPositional("FILE", &files, "Files to check.");
  const auto outcome = program.Run({"a", "-t", "2", "-", "--", "--model"});
  ASSERT_FALSE(outcome.exit) << outcome.output;
  EXPECT_THAT(files, ElementsAre("a", "-", "--model"));
  EXPECT_THAT(program.model, IsEmpty());
}

TEST(OptionTableTest, AVariableListIsSplitAtCommas) {
  Program program;
  ASSERT_FALSE(program.Run({}, {{"BATON_WORKER_PEER", "x:1,y:2"}}).exit);
  EXPECT_THAT(program.peers, ElementsAre("x:1", "y:2"));
}

}  // namespace
}  // namespace baton::config
