// `baton`, the command a person uses: picks the subcommand.
#include <cstdio>
#include <string>

#include "services/cli/base/signals.h"
#include "services/cli/bench_command.h"
#include "services/cli/chat_command.h"
#include "services/cli/demo_command.h"
#include "services/cli/doctor_command.h"
#include "services/cli/perplexity_command.h"
#include "services/cli/up_command.h"
#include "services/config/nearest_name.h"
#include "services/config/option_table.h"

namespace {

constexpr char kUsage[] =
    "baton runs and uses a cluster for LLM inference on GGUF models.\n"
    "\n"
    "Usage: baton COMMAND [options]\n"
    "\n"
    "Commands:\n"
    "  up          start a whole cluster on this machine\n"
    "  chat        talk to a gateway\n"
    "  bench       measure a gateway\n"
    "  demo        show a hand-over and check it against one process\n"
    "  doctor      check this machine, a model and a gateway\n"
    "  perplexity  score a text with a model, or compare two models on it\n"
    "  version     print the version\n"
    "\n"
    "baton COMMAND --help lists the command's options.\n";

int Unknown(const std::string& command) {
  const std::string nearest = baton::config::NearestName(
      command, {"up", "chat", "bench", "demo", "doctor", "perplexity",
                "version", "help"});
  std::fprintf(stderr, "baton: unknown command \"%s\"%s%s%s\n", command.c_str(),
               nearest.empty() ? "" : "; did you mean ", nearest.c_str(),
               nearest.empty() ? "" : "?");
  return baton::config::kExitConfig;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "version" || command == "--version") {
    std::printf("baton %s\n", BATON_VERSION);
    return 0;
  }
  if (command == "help" || command == "--help" || command == "-h") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (command.empty()) {
    std::fputs(kUsage, stderr);
    return baton::config::kExitConfig;
  }
  // Before any thread starts, so that all of them leave signals to it.
  baton::cli::Signals signals;
  if (command == "up") return baton::cli::RunUp(argc - 1, argv + 1, &signals);
  if (command == "chat") {
    return baton::cli::RunChat(argc - 1, argv + 1, &signals);
  }
  if (command == "bench") {
    return baton::cli::RunBench(argc - 1, argv + 1, &signals);
  }
  if (command == "demo") {
    return baton::cli::RunDemo(argc - 1, argv + 1, &signals);
  }
  if (command == "doctor") return baton::cli::RunDoctor(argc - 1, argv + 1);
  if (command == "perplexity") {
    return baton::cli::RunPerplexity(argc - 1, argv + 1, &signals);
  }
  return Unknown(command);
}
