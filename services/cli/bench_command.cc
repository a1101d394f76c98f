#include "services/cli/bench_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"
#include "services/base/status_macros.h"
#include "services/cli/base/progress_line.h"
#include "services/cli/bench/load.h"
#include "services/cli/bench/report.h"
#include "services/cli/client/address.h"
#include "services/cli/client/answer.h"
#include "services/cli/client/grpc_chat_client.h"
#include "services/cli/client/http_chat_client.h"
#include "services/config/option_table.h"

namespace baton::cli {
namespace {

struct BenchOptions {
  std::string url;
  std::string grpc = "127.0.0.1:9300";
  uint32_t requests = 32;
  uint32_t warmup = 1;
  uint32_t concurrency = 4;
  double rate = 0;
  uint32_t prompt_tokens = 256;
  uint32_t shared_tokens = 0;
  uint32_t max_tokens = 64;
  double temperature = 0;
  uint32_t seed = 1;
  std::string prompt_file;
  std::string json;
  bool ignore_eos = true;
  absl::Duration timeout = absl::Minutes(10);
};

void AddOptions(BenchOptions* options, config::OptionTable* table) {
  table->AddString(
      "url", &options->url,
      "HTTP address of a gateway, instead of gRPC; without a port: "
      "8080.");
  table->AddString("grpc", &options->grpc, "gRPC address of a gateway.");
  table->AddUint("requests", &options->requests, 1, 1000000,
                 "Requests to measure.");
  table->AddUint("warmup", &options->warmup, 0, 1000,
                 "Requests before, one by one, that are not counted.");
  table->AddUint("concurrency", &options->concurrency, 1, 1024,
                 "Requests at once; with --rate, the most at once.", 'c');
  table->AddDouble("rate", &options->rate, 0, 1e6,
                   "Open loop: requests a second, Poisson; 0: closed loop.");
  table->AddUint(
      "prompt-tokens", &options->prompt_tokens, 1, 1 << 20,
      "About so many tokens of text in each prompt. The model's chat "
      "template adds its own, a system message of some models too: "
      "the report has the length that was measured.");
  table->AddUint("shared-tokens", &options->shared_tokens, 0, 1 << 20,
                 "About so many of them are the same in every prompt.");
  table->AddUint("max-tokens", &options->max_tokens, 1, 1 << 20,
                 "Tokens of each answer.", 'n');
  table->AddDouble("temperature", &options->temperature, 0, 100, "0 = greedy.");
  table->AddUint("seed", &options->seed, 0, UINT32_MAX,
                 "Fixes prompts, arrivals and sampling.");
  table->AddString("prompt-file", &options->prompt_file,
                   "One prompt a line, used in turn, instead of words.");
  table->AddBool("ignore-eos", &options->ignore_eos,
                 "Let every answer reach --max-tokens.");
  table->AddString("json", &options->json, "Write the report to this file.");
  table->AddDuration("timeout", &options->timeout,
                     "Longest time an answer may take.");
}

// The load: sources, prompts and arrival times, shared by the threads.
class Bench {
 public:
  Bench(const BenchOptions& options, std::vector<std::string> prompts)
      : options_(options), prompts_(std::move(prompts)) {
    for (uint32_t i = 0; i < Threads(); ++i) {
      sources_.push_back(
          options.url.empty()
              ? MakeGrpcChatClient(options.grpc, options.timeout)
              : MakeHttpChatClient(options.url, options.timeout));
    }
  }

  // kCancelled after Stop; else the first failed warm-up.
  absl::Status WarmUp() {
    for (uint32_t i = 0; i < options_.warmup; ++i) {
      if (stopped()) return absl::CancelledError("interrupted");
      // Prompts of their own: what is measured must not be cached by them.
      const auto answer =
          sources_[0]->Ask(MakeQuestion(options_.requests + i), {});
      if (!answer.ok()) return answer.status();
    }
    return absl::OkStatus();
  }

  // Shows how far it is on `progress`.
  BenchReport Run(ProgressLine* progress) {
    if (options_.rate > 0) {
      arrivals_ =
          PoissonArrivals(options_.seed, options_.rate, options_.requests);
    }
    samples_.resize(options_.requests);
    start_ = clock_.Monotonic();
    {
      std::vector<std::jthread> threads;
      {
        MutexLock lock(&mutex_);
        running_threads_ = Threads();
      }
      for (uint32_t i = 0; i < Threads(); ++i) {
        threads.emplace_back([this, i] { RunThread(sources_[i].get()); });
      }
      ShowProgress(progress);
    }
    const double wall = absl::ToDoubleSeconds(clock_.Monotonic() - start_);
    samples_.resize(std::min<size_t>(samples_.size(), next_));
    return Summarise(samples_, wall);
  }

  // From any thread: no further requests; running ones end.
  void Stop() {
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      wake_.SignalAll();
    }
    for (const auto& source : sources_) source->Cancel();
  }

  bool stopped() {
    MutexLock lock(&mutex_);
    return stopped_;
  }

 private:
  uint32_t Threads() const {
    return std::min(options_.concurrency, options_.requests);
  }

  Question MakeQuestion(uint32_t index) const {
    Question question;
    question.turns = {{"user", prompts_[index % prompts_.size()]}};
    question.max_tokens = options_.max_tokens;
    question.temperature = options_.temperature;
    question.seed = options_.seed + index;
    question.ignore_eos = options_.ignore_eos;
    return question;
  }

  // Waits for the arrival time; false after Stop.
  bool AwaitArrival(uint32_t index) {
    MutexLock lock(&mutex_);
    while (!stopped_) {
      if (arrivals_.empty()) return true;
      const absl::Duration left =
          start_ + arrivals_[index] - clock_.Monotonic();
      if (left <= absl::ZeroDuration()) return true;
      wake_.WaitWithTimeout(&mutex_, left);
    }
    return false;
  }

  // Until the threads have nothing left to do.
  void ShowProgress(ProgressLine* progress) {
    constexpr absl::Duration kEvery = absl::Milliseconds(500);
    while (true) {
      {
        MutexLock lock(&mutex_);
        if (running_threads_ > 0) wake_.WaitWithTimeout(&mutex_, kEvery);
        if (running_threads_ == 0) break;
      }
      const absl::Duration now = clock_.Monotonic();
      progress->Show(ProgressText({options_.requests, ended_, failed_, tokens_,
                                   absl::ToDoubleSeconds(now - start_)}),
                     now);
    }
    progress->Clear();
  }

  void RunThread(ChatSource* source) {
    while (true) {
      const uint32_t index = next_.fetch_add(1);
      if (index >= options_.requests) break;
      if (!AwaitArrival(index)) {
        samples_[index].error = "not sent";
        continue;
      }
      samples_[index] = Measure(source, index);
      if (!samples_[index].error.empty()) ++failed_;
      ++ended_;
    }
    MutexLock lock(&mutex_);
    --running_threads_;
    wake_.SignalAll();
  }

  RequestSample Measure(ChatSource* source, uint32_t index) {
    RequestSample sample;
    const absl::Duration start = clock_.Monotonic();
    if (!arrivals_.empty()) {
      sample.late = absl::ToDoubleSeconds(start - start_ - arrivals_[index]);
    }
    absl::Duration last;
    bool first = true;
    AnswerEvents events;
    events.on_text = [&](absl::string_view, uint32_t tokens) {
      if (tokens == 0) return;
      tokens_ += tokens;
      const absl::Duration now = clock_.Monotonic();
      if (first) {
        sample.first_token = absl::ToDoubleSeconds(now - start);
      } else {
        const double gap = absl::ToDoubleSeconds(now - last) / tokens;
        sample.gaps.insert(sample.gaps.end(), tokens, gap);
      }
      first = false;
      last = now;
    };
    const auto answer = source->Ask(MakeQuestion(index), events);
    sample.total = absl::ToDoubleSeconds(clock_.Monotonic() - start);
    if (!answer.ok()) {
      sample.error = absl::StatusCodeToString(answer.status().code());
      return sample;
    }
    sample.prompt_tokens = answer->prompt_tokens;
    sample.cached_tokens = answer->cached_tokens;
    sample.completion_tokens = answer->completion_tokens;
    return sample;
  }

  const BenchOptions options_;
  const std::vector<std::string> prompts_;
  SystemClock clock_;
  std::vector<std::unique_ptr<ChatSource>> sources_;
  std::vector<absl::Duration> arrivals_;  // constant while threads run
  std::vector<RequestSample> samples_;    // each written by one thread
  absl::Duration start_;
  std::atomic<uint32_t> next_ = 0;
  // For ShowProgress.
  std::atomic<uint32_t> ended_ = 0;
  std::atomic<uint32_t> failed_ = 0;
  std::atomic<uint64_t> tokens_ = 0;
  Mutex mutex_;
  CondVar wake_;  // stopped, or a thread has ended
  uint32_t running_threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// Words per token of the server's vocabulary; 1 if it does not say.
double WordsPerToken(const BenchOptions& options) {
  constexpr uint32_t kWords = 200;
  if (!options.url.empty()) return 1;
  const auto tokens =
      CountTokens(options.grpc, MakePrompt(options.seed, 0, kWords, 0));
  return tokens.ok() && *tokens > 0 ? static_cast<double>(kWords) / *tokens : 1;
}

absl::StatusOr<std::vector<std::string>> MakePrompts(
    const BenchOptions& options) {
  if (!options.prompt_file.empty()) return ReadPromptFile(options.prompt_file);
  std::vector<std::string> prompts;
  const double ratio = WordsPerToken(options);
  const auto words = [ratio](uint32_t tokens) {
    return static_cast<uint32_t>(tokens * ratio);
  };
  for (uint32_t i = 0; i < options.requests + options.warmup; ++i) {
    prompts.push_back(MakePrompt(options.seed, i,
                                 std::max(1u, words(options.prompt_tokens)),
                                 words(options.shared_tokens)));
  }
  return prompts;
}

std::map<std::string, std::string> Settings(const BenchOptions& options) {
  return {{"target", options.url.empty() ? options.grpc : options.url},
          {"requests", absl::StrCat(options.requests)},
          {"concurrency", absl::StrCat(options.concurrency)},
          {"rate", absl::StrCat(options.rate)},
          {"prompt_tokens", absl::StrCat(options.prompt_tokens)},
          {"shared_tokens", absl::StrCat(options.shared_tokens)},
          {"max_tokens", absl::StrCat(options.max_tokens)},
          {"temperature", absl::StrCat(options.temperature)},
          {"seed", absl::StrCat(options.seed)}};
}

int Interrupted() {
  std::fputs("baton bench: interrupted\n", stderr);
  return kExitInterrupted;
}

}  // namespace

int RunBench(int argc, const char* const* argv, Signals* signals) {
  BenchOptions options;
  config::OptionTable table("baton bench", "bench", "Measures a gateway.");
  AddOptions(&options, &table);
  table.SetCheck(
      [&options] { return CompleteAddresses(&options.url, &options.grpc); });
  const auto outcome = table.Parse(argc, argv, config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  auto prompts = MakePrompts(options);
  if (!prompts.ok()) {
    std::fprintf(stderr, "baton bench: %s\n",
                 std::string(prompts.status().message()).c_str());
    return 1;
  }
  Bench bench(options, *std::move(prompts));
  SignalWatch watch(signals, [&bench] { bench.Stop(); });
  ProgressLine progress(stderr, isatty(STDERR_FILENO) != 0);
  if (options.warmup > 0) progress.Show("warming up", absl::ZeroDuration());
  const absl::Status warm = bench.WarmUp();
  progress.Clear();
  if (bench.stopped()) return Interrupted();
  if (!warm.ok()) {
    std::fprintf(stderr, "baton bench: the first request failed: %s\n",
                 std::string(warm.message()).c_str());
    return 1;
  }
  const BenchReport report = bench.Run(&progress);
  std::fputs(ReportTable(report).c_str(), stdout);
  // What came until then is worth showing, but it is no result to keep.
  if (bench.stopped()) return Interrupted();
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << ReportJson(report, Settings(options));
    file.close();
    if (!file) {
      std::fprintf(stderr, "baton bench: cannot write %s\n",
                   options.json.c_str());
      return 1;
    }
  }
  return report.answered == report.requests ? 0 : 1;
}

}  // namespace baton::cli
