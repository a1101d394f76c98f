#include "services/cli/chat_command.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/cli/client/address.h"
#include "services/cli/client/answer.h"
#include "services/cli/client/grpc_chat_client.h"
#include "services/cli/client/http_chat_client.h"
#include "services/config/option_table.h"

namespace baton::cli {
namespace {

struct ChatOptions {
  std::string url;
  std::string grpc = "127.0.0.1:9300";
  std::string system;
  std::string prompt;
  uint32_t max_tokens = 0;
  double temperature = -1;
  std::string seed;
  absl::Duration timeout = absl::Minutes(10);
  std::optional<uint64_t> seed_value;  // of `seed`, by Complete
};

// Checks the options together, and fills in what they leave out.
absl::Status Complete(ChatOptions* options) {
  BATON_RETURN_IF_ERROR(CompleteAddresses(&options->url, &options->grpc));
  if (!options->seed.empty()) {
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(options->seed, &seed)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--seed: \"", options->seed, "\" is not a whole number"));
    }
    options->seed_value = seed;
  }
  return absl::OkStatus();
}

void AddOptions(ChatOptions* options, config::OptionTable* table) {
  table->AddString(
      "url", &options->url,
      "HTTP address of a gateway, instead of gRPC; without a port: "
      "8080.");
  table->AddString("grpc", &options->grpc, "gRPC address of a gateway.");
  table->AddString("system", &options->system, "System message.");
  table->AddString("prompt", &options->prompt,
                   "Ask this once and exit; empty: a conversation.", 'p');
  table->AddUint("max-tokens", &options->max_tokens, 0, 1 << 24,
                 "Longest answer; 0: up to the context.", 'n');
  table->AddDouble("temperature", &options->temperature, -1, 100,
                   "0 = greedy; -1: the server's default.");
  table->AddString("seed", &options->seed, "Fixes the answer; empty: random.");
  table->AddDuration("timeout", &options->timeout,
                     "Longest time an answer may take.");
}

// Lines of standard input, beside signals.
class LineReader {
 public:
  explicit LineReader(Signals* signals) : signals_(signals) {}

  bool interrupted() const { return interrupted_; }
  // No value at the end of the input or after a signal.
  std::optional<std::string> Next() {
    while (true) {
      const size_t end = pending_.find('\n');
      if (end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      std::array<pollfd, 2> fds = {
          {{STDIN_FILENO, POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
      poll(fds.data(), fds.size(), -1);
      if (fds[1].revents != 0 && signals_->Take() != 0) {
        interrupted_ = true;
        return std::nullopt;
      }
      if (fds[0].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
      if (n > 0) {
        pending_.append(buffer.data(), n);
      } else if (pending_.empty()) {
        return std::nullopt;
      } else {
        return std::exchange(pending_, {});
      }
    }
  }

 private:
  Signals* const signals_;
  std::string pending_;
  bool interrupted_ = false;
};

class Chat {
 public:
  Chat(const ChatOptions& options, Signals* signals)
      : options_(options),
        signals_(signals),
        terminal_(isatty(STDERR_FILENO) != 0),
        source_(options.url.empty()
                    ? MakeGrpcChatClient(options.grpc, options.timeout)
                    : MakeHttpChatClient(options.url, options.timeout)) {
    if (!options.system.empty()) {
      question_.turns.push_back({"system", options.system});
    }
    if (options.max_tokens > 0) question_.max_tokens = options.max_tokens;
    if (options.temperature >= 0) question_.temperature = options.temperature;
    question_.seed = options.seed_value;
  }

  int Run() {
    if (!options_.prompt.empty()) return ExitCode(Ask(options_.prompt));
    LineReader lines(signals_);
    const bool prompting = isatty(STDIN_FILENO) != 0;
    absl::Status last;
    while (true) {
      if (prompting) std::fputs("> ", stderr);
      const auto line = lines.Next();
      if (!line.has_value()) break;
      if (absl::StripAsciiWhitespace(*line).empty()) continue;
      last = Ask(*line);
    }
    if (prompting) std::fputs("\n", stderr);
    // A script that feeds lines wants to know; a person has seen it.
    if (prompting) return 0;
    return lines.interrupted() ? kExitInterrupted : ExitCode(last);
  }

 private:
  static int ExitCode(const absl::Status& status) {
    if (status.ok()) return 0;
    return absl::IsCancelled(status) ? kExitInterrupted : 1;
  }

  void ShowProgress(uint32_t processed, uint32_t total) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\x1b[Kreading the prompt: %u of %u tokens",
                 processed, total);
    progress_shown_ = true;
  }

  void ClearProgress() {
    if (progress_shown_) std::fputs("\r\x1b[K", stderr);
    progress_shown_ = false;
  }

  absl::Status Ask(const std::string& text) {
    question_.turns.push_back({"user", text});
    AnswerEvents events;
    events.on_progress = [this](uint32_t processed, uint32_t total) {
      ShowProgress(processed, total);
    };
    bool printed = false;
    events.on_text = [this, &printed](absl::string_view piece, uint32_t) {
      ClearProgress();
      printed = printed || !piece.empty();
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    absl::StatusOr<Answer> answer = absl::UnknownError("");
    {
      SignalWatch watch(signals_, [this] { source_->Cancel(); });
      answer = source_->Ask(question_, events);
    }
    ClearProgress();
    if (!answer.ok()) {
      // The failed turn is not part of the conversation.
      question_.turns.pop_back();
      // A line of its own, after what has been printed of the answer.
      if (printed) std::fputs("\n", stderr);
      if (absl::IsCancelled(answer.status())) {
        std::fputs("(cancelled)\n", stderr);
      } else {
        std::fprintf(stderr, "baton chat: %s\n",
                     std::string(answer.status().message()).c_str());
      }
      return answer.status();
    }
    question_.turns.push_back({"assistant", answer->text});
    std::fputs("\n", stdout);
    std::fflush(stdout);
    std::fprintf(stderr, terminal_ ? "\x1b[2m%s\x1b[0m\n" : "%s\n",
                 StatusLine(*answer).c_str());
    return absl::OkStatus();
  }

  const ChatOptions options_;
  Signals* const signals_;
  const bool terminal_;
  const std::unique_ptr<ChatSource> source_;
  Question question_;
  bool progress_shown_ = false;
};

}  // namespace

int RunChat(int argc, const char* const* argv, Signals* signals) {
  ChatOptions options;
  config::OptionTable table("baton chat", "chat", "Talks to a gateway.");
  AddOptions(&options, &table);
  table.SetCheck([&options] { return Complete(&options); });
  const auto outcome = table.Parse(argc, argv, config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  return Chat(options, signals).Run();
}

}  // namespace baton::cli
