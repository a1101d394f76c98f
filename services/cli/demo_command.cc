#include "services/cli/demo_command.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/cli/client/grpc_chat_client.h"
#include "services/cli/cluster/local_cluster.h"
#include "services/cli/demo_report.h"
#include "services/cli/model_check.h"
#include "services/cli/up_command.h"
#include "services/config/option_table.h"

namespace baton::cli {
namespace {

// Long enough to fill blocks, so that the second question can reuse them.
constexpr char kSystem[] =
    "You are the announcer of a relay race. Four runners share one baton: the "
    "first reads the course, the second carries the pace, the third keeps "
    "what the others have learned, and the last brings it home. You speak in "
    "short, plain sentences. You never invent results. When somebody asks "
    "about a runner you say what that runner does, what the runner receives "
    "from the one before, and what is passed on to the one after. When "
    "somebody asks about the race you describe the stadium, the weather, the "
    "crowd and the colours of the teams before you come to the point.";
constexpr char kFirst[] =
    "The runners are at the start. Describe the first hand-over.";
constexpr char kSecond[] =
    "Now the last runner has the baton and two teams are level with fifty "
    "metres to go. The crowd is standing, the flags are up, and the judges "
    "lean over the line with their watches in their hands. Tell us what "
    "happens next, and why a clean hand-over decides a race more often than "
    "the fastest legs do.";

struct DemoOptions {
  std::string model;
  uint32_t prefill = 1;
  uint32_t decode = 1;
  uint32_t threads = 0;
  uint32_t max_tokens = 64;
  double temperature = 0.8;
  uint32_t seed = 7;
  std::vector<std::string> worker_flags;
  std::string json;
  std::string config_file;
};

void AddOptions(DemoOptions* options, config::OptionTable* table) {
  table->AddString("model", &options->model, "GGUF file of the model.", 'm');
  table->AddUint("prefill", &options->prefill, 1, 16, "Prefill workers.");
  table->AddUint("decode", &options->decode, 1, 16, "Decode workers.");
  table->AddUint("threads", &options->threads, 0, 1024,
                 "Compute threads of each worker; 0: its share of the cores.",
                 't');
  table->AddUint("max-tokens", &options->max_tokens, 2, 4096,
                 "Tokens of each answer.", 'n');
  table->AddDouble("temperature", &options->temperature, 0, 100, "0 = greedy.");
  table->AddUint("seed", &options->seed, 0, UINT32_MAX, "Fixes the answers.");
  table->AddStrings("worker-flag", &options->worker_flags,
                    "A flag for every worker, as --name=value.");
  table->AddString("json", &options->json, "Write the report to this file.");
  table->Require("model");
}

// A folder that goes away with it.
class ScratchFolder {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Create() {
    std::error_code error;
    const auto base = std::filesystem::temp_directory_path(error);
    std::string path = (base / "baton-demo-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot make ", path));
    }
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(path));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

class Demo {
 public:
  Demo(const DemoOptions& options, std::string binary, std::string folder,
       Signals* signals)
      : options_(options),
        binary_(std::move(binary)),
        folder_(std::move(folder)),
        signals_(signals) {}

  // True if every answer of the cluster equals that of one process.
  absl::StatusOr<bool> Run() {
    BATON_ASSIGN_OR_RETURN(const std::vector<Answer> cluster,
                           AskAll("cluster",
                                  {absl::StrCat("--prefill=", options_.prefill),
                                   absl::StrCat("--decode=", options_.decode)},
                                  true));
    // After the cluster has gone, so that neither slows the other down.
    BATON_ASSIGN_OR_RETURN(
        const std::vector<Answer> single,
        AskAll("one process", {"--prefill=0", "--decode=1", "--no-kvstore"},
               false));
    std::printf("\n%s", DemoReport(cluster, single).c_str());
    bool same = true;
    for (size_t i = 0; i < cluster.size(); ++i) {
      if (SameTokens(cluster[i], single[i])) continue;
      same = false;
      std::printf("prompt %zu: the tokens differ from number %zu on\n", i + 1,
                  FirstDifference(cluster[i], single[i]) + 1);
    }
    if (!options_.json.empty()) {
      std::ofstream file(options_.json);
      file << DemoJson(cluster, single);
      file.close();
      if (!file) {
        return absl::UnavailableError(
            absl::StrCat("cannot write ", options_.json));
      }
    }
    return same;
  }

 private:
  absl::StatusOr<std::vector<Answer>> AskAll(const std::string& name,
                                             std::vector<std::string> flags,
                                             bool visible) {
    std::fprintf(stderr, "starting: %s\n", name.c_str());
    LocalCluster::Options options;
    options.binary = binary_;
    options.dir = absl::StrCat(folder_, "/", visible ? "cluster" : "single");
    std::filesystem::create_directory(options.dir);
    flags.push_back("--model=" + options_.model);
    if (!options_.config_file.empty()) {
      flags.push_back("--config=" + options_.config_file);
    }
    if (options_.threads > 0) {
      flags.push_back(absl::StrCat("--threads=", options_.threads));
    }
    for (const std::string& flag : options_.worker_flags) {
      flags.push_back("--worker-flag=" + flag);
    }
    options.flags = std::move(flags);
    BATON_ASSIGN_OR_RETURN(const auto cluster,
                           LocalCluster::Start(options, signals_));
    const ProcessView* gateway = cluster->state().Find("gateway");
    const auto source = MakeGrpcChatClient(gateway->grpc, absl::Minutes(10));
    SignalWatch watch(signals_, [&source] { source->Cancel(); });

    std::vector<Answer> answers;
    Question question;
    question.turns = {{"system", kSystem}};
    question.max_tokens = options_.max_tokens;
    question.temperature = options_.temperature;
    question.seed = options_.seed;
    for (const char* text : {kFirst, kSecond}) {
      question.turns.push_back({"user", text});
      BATON_ASSIGN_OR_RETURN(Answer answer,
                             Ask(source.get(), question, visible));
      question.turns.push_back({"assistant", answer.text});
      answers.push_back(std::move(answer));
    }
    return answers;
  }

  absl::StatusOr<Answer> Ask(ChatSource* source, const Question& question,
                             bool visible) {
    AnswerEvents events;
    if (visible) {
      std::printf("\n> %s\n", question.turns.back().content.c_str());
      events.on_text = [](absl::string_view piece, uint32_t) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      };
    }
    BATON_ASSIGN_OR_RETURN(Answer answer, source->Ask(question, events));
    if (visible) std::printf("\n\n%s\n", StatusLine(answer).c_str());
    std::fflush(stdout);
    return answer;
  }

  const DemoOptions options_;
  const std::string binary_;
  const std::string folder_;
  Signals* const signals_;
};

int Fail(const absl::Status& status) {
  if (absl::IsCancelled(status)) {
    std::fputs("baton demo: interrupted\n", stderr);
    return kExitInterrupted;
  }
  std::fprintf(stderr, "baton demo: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int RunDemo(int argc, const char* const* argv, Signals* signals) {
  DemoOptions options;
  config::OptionTable table(
      "baton demo", "demo",
      "Shows a hand-over, and checks the answers against one process.");
  AddOptions(&options, &table);
  const auto outcome = table.Parse(argc, argv, config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  options.config_file = table.config_file();
  const absl::Status model = CheckModelFile(options.model);
  if (!model.ok()) return Fail(model);
  const auto binaries = ExecutableFolder();
  if (!binaries.ok()) return Fail(binaries.status());
  const auto scratch = ScratchFolder::Create();
  if (!scratch.ok()) return Fail(scratch.status());
  const auto same =
      Demo(options, *binaries + "/baton", (*scratch)->path(), signals).Run();
  if (!same.ok()) return Fail(same.status());
  return *same ? 0 : 1;
}

}  // namespace baton::cli
