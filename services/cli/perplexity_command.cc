#include "services/cli/perplexity_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"
#include "services/base/status_macros.h"
#include "services/cli/base/progress_line.h"
#include "services/cli/perplexity_report.h"
#include "services/cli/perplexity_text.h"
#include "services/config/option_table.h"
#include "services/process/cores.h"
#include "worker/perplexity/chunk_scorer.h"
#include "worker/perplexity/loaded_model.h"

namespace baton::cli {
namespace {

struct PerplexityOptions {
  PerplexityTextSource source;
  uint32_t chunks = 0;
  uint32_t threads = 0;
  std::string kv_type = worker::KvTypeName(worker::KvType::kF16);
  std::string json;
};

void AddOptions(PerplexityOptions* options, config::OptionTable* table) {
  table->AddString("model", &options->source.model_path, "GGUF file.", 'm');
  table->Require("model");
  table->AddString("text", &options->source.text_path, "Text file to score.",
                   'f');
  table->Require("text");
  table->AddUint(
      "context", &options->source.context, worker::kShortestContext, 1u << 24,
      "Tokens of a chunk; those of its second half are scored.", 'c');
  table->AddUint("chunks", &options->chunks, 0, UINT32_MAX,
                 "Only the first so many; 0 = all of the text.");
  table->AddString("against", &options->source.base_path,
                   "GGUF file to take as the base: also report the KL "
                   "divergence of --model from it. The tokenizer must be the "
                   "same.");
  table->AddUint("threads", &options->threads, 0, 1024,
                 "Compute threads; 0 = as many as cores.", 't');
  table->AddChoice("kv-type", &options->kv_type,
                   {worker::KvTypeName(worker::KvType::kF16),
                    worker::KvTypeName(worker::KvType::kF32)},
                   "Element type of KV rows.");
  table->AddString("json", &options->json, "Write the report to this file.");
}

// The computation, on a thread of its own so that the caller can always say
// how far it is.
class PerplexityRun {
 public:
  PerplexityRun(const PerplexityOptions& options, PerplexityText text)
      : options_(options), text_(std::move(text)) {
    const auto context = options_.source.context;
    chunks_ = static_cast<uint32_t>(text_.tokens.size() / context);
    if (options_.chunks > 0) chunks_ = std::min(chunks_, options_.chunks);
  }

  // Shows how far it is on `progress`. Errors: those of LoadedModel::Load and
  // ChunkScorer; kCancelled after Stop.
  absl::StatusOr<PerplexityReport> Run(ProgressLine* progress) {
    absl::StatusOr<PerplexityReport> result;
    std::jthread thread([this, &result] {
      result = Compute();
      MutexLock lock(&mutex_);
      ended_ = true;
      wake_.SignalAll();
    });
    ShowProgress(progress);
    thread.join();
    return result;
  }

  // From any thread: the run ends with its step.
  void Stop() {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }

 private:
  using LoadedModel = worker::LoadedModel;

  bool stopped() {
    MutexLock lock(&mutex_);
    return stopped_;
  }

  void SetActivity(std::string activity) {
    MutexLock lock(&mutex_);
    activity_ = std::move(activity);
  }

  void ShowProgress(ProgressLine* progress) {
    constexpr absl::Duration kEvery = absl::Milliseconds(500);
    while (true) {
      std::string activity;
      {
        MutexLock lock(&mutex_);
        if (!ended_) wake_.WaitWithTimeout(&mutex_, kEvery);
        if (ended_) break;
        activity = activity_;
      }
      progress->Show(activity, clock_.Monotonic());
    }
    progress->Clear();
  }

  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const std::string& path) {
    if (stopped()) return absl::CancelledError("interrupted");
    const std::string name = std::filesystem::path(path).filename().string();
    LoadedModel::Options options;
    options.path = path;
    options.context = options_.source.context;
    for (const auto type : {worker::KvType::kF16, worker::KvType::kF32}) {
      if (options_.kv_type == worker::KvTypeName(type)) options.kv_type = type;
    }
    options.threads = static_cast<int>(
        options_.threads > 0 ? options_.threads : process::UsableCores());
    options.progress = [this, &name](double share) {
      SetActivity(absl::StrFormat("loading %s: %.0f %%", name, share * 100));
    };
    options.progress(0);
    return LoadedModel::Load(options);
  }

  absl::StatusOr<PerplexityReport> Compute() {
    BATON_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModel> model,
                           Load(options_.source.model_path));
    std::unique_ptr<LoadedModel> base;
    if (!options_.source.base_path.empty()) {
      BATON_ASSIGN_OR_RETURN(base, Load(options_.source.base_path));
    }
    worker::ChunkScorer::Options options;
    options.context = options_.source.context;
    options.bos = text_.bos;
    options.after_step = [this](uint32_t rows) { return AfterStep(rows); };
    BATON_ASSIGN_OR_RETURN(
        const std::unique_ptr<worker::ChunkScorer> scorer,
        worker::ChunkScorer::Create(
            std::move(options), model->runner(),
            base ? std::optional(base->runner()) : std::nullopt));
    return Score(scorer.get());
  }

  absl::StatusOr<PerplexityReport> Score(worker::ChunkScorer* scorer) {
    start_ = clock_.Monotonic();
    const std::span<const TokenId> tokens(text_.tokens);
    const uint32_t context = options_.source.context;
    for (; scored_chunks_ < chunks_; ++scored_chunks_) {
      BATON_RETURN_IF_ERROR(scorer->Score(tokens.subspan(
          static_cast<size_t>(scored_chunks_) * context, context)));
      perplexity_ = worker::PerplexityOf(scorer->nll().estimate()).value;
    }
    PerplexityReport report;
    report.context = context;
    report.chunks = chunks_;
    report.positions = scorer->nll().count();
    report.seconds = absl::ToDoubleSeconds(clock_.Monotonic() - start_);
    report.nll = scorer->nll().estimate();
    if (!options_.source.base_path.empty()) {
      report.base = {scorer->base_nll().estimate(),
                     scorer->divergence().Report()};
    }
    return report;
  }

  bool AfterStep(uint32_t rows) {
    rows_ += rows;
    const double seconds = absl::ToDoubleSeconds(clock_.Monotonic() - start_);
    SetActivity(absl::StrFormat(
        "chunk %d of %d%s, %.1f tokens/s", scored_chunks_ + 1, chunks_,
        scored_chunks_ > 0 ? absl::StrFormat(", PPL %.4f", perplexity_) : "",
        seconds > 0 ? static_cast<double>(rows_) / seconds : 0));
    return !stopped();
  }

  const PerplexityOptions options_;
  const PerplexityText text_;
  SystemClock clock_;
  uint32_t chunks_ = 0;
  // The computing thread's.
  absl::Duration start_;
  uint32_t scored_chunks_ = 0;
  uint64_t rows_ = 0;
  double perplexity_ = 0;  // of the chunks scored
  Mutex mutex_;
  CondVar wake_;  // ended
  std::string activity_ ABSL_GUARDED_BY(mutex_) = "loading";
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

std::map<std::string, std::string> Settings(const PerplexityOptions& options) {
  return {{"model", options.source.model_path},
          {"text", options.source.text_path},
          {"against", options.source.base_path},
          {"context", absl::StrCat(options.source.context)},
          {"chunks", absl::StrCat(options.chunks)},
          {"threads", absl::StrCat(options.threads)},
          {"kv_type", options.kv_type}};
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "baton perplexity: %s\n",
               std::string(status.message()).c_str());
  return absl::IsCancelled(status) ? kExitInterrupted : 1;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace

int RunPerplexity(int argc, const char* const* argv, Signals* signals) {
  PerplexityOptions options;
  config::OptionTable table(
      "baton perplexity", "perplexity",
      "Scores a text with a model as llama.cpp's llama-perplexity does.");
  AddOptions(&options, &table);
  const auto outcome = table.Parse(argc, argv, config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  auto text = ReadPerplexityText(options.source);
  if (!text.ok()) return Fail(text.status());
  PerplexityRun run(options, *std::move(text));
  SignalWatch watch(signals, [&run] { run.Stop(); });
  ProgressLine progress(stderr, isatty(STDERR_FILENO) != 0);
  const auto report = run.Run(&progress);
  if (!report.ok()) return Fail(report.status());
  std::fputs(PerplexityTable(*report).c_str(), stdout);
  if (options.json.empty()) return 0;
  const absl::Status written =
      WriteFile(options.json, PerplexityJson(*report, Settings(options)));
  return written.ok() ? 0 : Fail(written);
}

}  // namespace baton::cli
