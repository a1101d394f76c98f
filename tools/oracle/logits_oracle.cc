// Writes golden logits with libllama: seeded prompts and their continuation,
// one token a step, flash attention off, the KV cache in f32. The JSON on
// standard output is what tests/golden/golden_logits_test.cc compares with.
//
//   logits_oracle MODEL --positions 100 --lead 0.02 [--source NAME]
//                 (--sequences 2 --prompt 24 --seed 11 | --tokens 1,2,3 …)
//
// A prompt is `prompt` random tokens, or those of a --tokens; it continues with
// the likeliest token, and so on. A random or continuing token after which the
// largest logit would lead by less than `lead` is passed over for the next one:
// where two tokens are nearly as likely, two correct engines may disagree.
// Nothing but libllama's own logits decides that.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "llama.h"

namespace {

constexpr int kTop = 8;      // largest logits stored a position
constexpr int kProbes = 16;  // logits at fixed ids, spread over the vocabulary
constexpr int kMostTries = 200;  // tokens passed over at one position

struct Flags {
  std::string source;
  int prompt = 24, positions = 96, sequences = 1;
  uint64_t seed = 1;
  double lead = 0;
  std::vector<std::vector<int>> tokens;  // of each given prompt
};

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "logits_oracle: %s\n", message.c_str());
  std::exit(1);
}

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--prompt") flags.prompt = std::stoi(value);
    if (flag == "--positions") flags.positions = std::stoi(value);
    if (flag == "--sequences") flags.sequences = std::stoi(value);
    if (flag == "--seed") flags.seed = std::stoull(value);
    if (flag == "--lead") flags.lead = std::stod(value);
    if (flag == "--source") flags.source = value;
    if (flag == "--tokens") {
      std::vector<int>& tokens = flags.tokens.emplace_back();
      for (size_t at = 0; at < value.size();) {
        size_t used = 0;
        tokens.push_back(std::stoi(value.substr(at), &used));
        at += used + 1;
      }
    }
  }
  return flags;
}

// Token ids by falling logit; of equal ones the smaller first.
std::vector<int> Ranked(const std::vector<float>& logits, int count) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(
      order.begin(), order.begin() + count, order.end(), [&](int a, int b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
      });
  order.resize(count);
  return order;
}

double LeadOf(const std::vector<float>& logits) {
  const std::vector<int> best = Ranked(logits, 2);
  return static_cast<double>(logits[best[0]]) - logits[best[1]];
}

void PrintPosition(const std::vector<float>& logits) {
  std::printf("{\"top\":[");
  const char* separator = "";
  for (const int id : Ranked(logits, kTop)) {
    std::printf("%s[%d,%.5f]", separator, id, logits[id]);
    separator = ",";
  }
  std::printf("],\"probes\":[");
  for (size_t i = 0; i < kProbes; ++i) {
    std::printf("%s%.5f", i ? "," : "", logits[i * logits.size() / kProbes]);
  }
  std::printf("]}");
}

// One sequence in libllama's cache.
class Sequence {
 public:
  Sequence(const Flags& flags, llama_context* context, int vocabulary)
      : flags_(flags), context_(context), vocabulary_(vocabulary) {
    llama_memory_clear(llama_get_memory(context_), true);
  }

  // Takes `given` as the prompt, or else tokens drawn from `seed`.
  void Run(const std::vector<int>& given, uint64_t seed) {
    for (int i = 0; i < flags_.positions; ++i) {
      if (i < static_cast<int>(given.size())) {
        Decode(given[i]);
      } else if (given.empty() && i < flags_.prompt) {
        TakeFirst([&](int) {
          seed = seed * 6364136223846793005ull + 1442695040888963407ull;
          return static_cast<int>((seed >> 33) % vocabulary_);
        });
      } else {
        const std::vector<int> likely =
            Ranked(rows_.back(), std::min(kMostTries, vocabulary_));
        TakeFirst([&](int attempt) { return likely.at(attempt); });
      }
    }
  }

  void Print() const {
    std::printf("{\"tokens\":[");
    for (size_t i = 0; i < tokens_.size(); ++i) {
      std::printf("%s%d", i ? "," : "", tokens_[i]);
    }
    std::printf("],\n\"positions\":[");
    for (size_t i = 0; i < rows_.size(); ++i) {
      std::printf("%s\n", i ? "," : "");
      PrintPosition(rows_[i]);
    }
    std::printf("]}");
  }

 private:
  // Appends the first candidate that leaves a clear lead.
  template <typename Candidate>
  void TakeFirst(Candidate candidate) {
    for (int attempt = 0; attempt < kMostTries; ++attempt) {
      Decode(candidate(attempt));
      if (LeadOf(rows_.back()) >= flags_.lead) return;
      rows_.pop_back();
      tokens_.pop_back();
      const int position = static_cast<int>(tokens_.size());
      llama_memory_seq_rm(llama_get_memory(context_), 0, position, -1);
    }
    Fail("no token leaves a lead at position " +
         std::to_string(tokens_.size()));
  }

  void Decode(int token) {
    llama_token next = token;
    if (llama_decode(context_, llama_batch_get_one(&next, 1)) != 0) {
      Fail("cannot decode");
    }
    const float* logits = llama_get_logits_ith(context_, -1);
    tokens_.push_back(token);
    rows_.emplace_back(logits, logits + vocabulary_);
  }

  const Flags& flags_;
  llama_context* const context_;
  const int vocabulary_;
  std::vector<int> tokens_;
  std::vector<std::vector<float>> rows_;
};

llama_context* NewContext(llama_model* model) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 4096;
  params.n_batch = 7;
  params.n_ubatch = 7;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  // With an f16 cache libllama also rounds queries and softmax weights to f16,
  // which ours does not: only an f32 cache makes the two comparable.
  params.type_k = GGML_TYPE_F32;
  params.type_v = GGML_TYPE_F32;
  params.n_threads = 1;
  return llama_init_from_model(model, params);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) Fail("which model?");
  const Flags flags = ParseFlags(argc, argv);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  model_params.use_extra_bufts = false;
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) Fail(std::string("cannot load ") + argv[1]);
  llama_context* context = NewContext(model);
  if (context == nullptr) Fail("no context");
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::printf("{\"source\":\"%s\",\n\"lead\":%g,\n\"sequences\":[",
              flags.source.c_str(), flags.lead);
  const int sequences = flags.tokens.empty()
                            ? flags.sequences
                            : static_cast<int>(flags.tokens.size());
  for (int i = 0; i < sequences; ++i) {
    Sequence sequence(flags, context, vocabulary);
    sequence.Run(flags.tokens.empty() ? std::vector<int>() : flags.tokens[i],
                 flags.seed + i);
    std::printf("%s\n", i ? "," : "");
    sequence.Print();
  }
  std::printf("]}\n");
  llama_free(context);
  llama_model_free(model);
  return 0;
}
