// Writes golden logits with libllama: a seeded prompt, then libllama's own
// greedy continuation, one token a step, flash attention off. The JSON on
// standard output is what tests/golden/golden_logits_test.cc compares with.
//
//   logits_oracle MODEL --prompt 24 --positions 96 --seed 1
//                 [--tokens 1,2,3] [--source "how the model file is made"]
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

void PrintPosition(const float* logits, int vocabulary) {
  std::vector<int> order(vocabulary);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(
      order.begin(), order.begin() + kTop, order.end(), [&](int a, int b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
      });
  std::printf("{\"top\":[");
  for (int i = 0; i < kTop; ++i) {
    std::printf("%s[%d,%.5f]", i ? "," : "", order[i], logits[order[i]]);
  }
  std::printf("],\"probes\":[");
  for (int i = 0; i < kProbes; ++i) {
    const int id =
        static_cast<int>(static_cast<int64_t>(i) * vocabulary / kProbes);
    std::printf("%s%.5f", i ? "," : "", logits[id]);
  }
  std::printf("]}");
}

int ArgMax(const float* logits, int vocabulary) {
  return static_cast<int>(std::max_element(logits, logits + vocabulary) -
                          logits);
}

}  // namespace

int main(int argc, char** argv) {
  std::string source;
  int prompt = 24, positions = 96;
  uint64_t seed = 1;
  std::vector<int> tokens;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--prompt") prompt = std::stoi(value);
    if (flag == "--positions") positions = std::stoi(value);
    if (flag == "--seed") seed = std::stoull(value);
    if (flag == "--source") source = value;
    if (flag == "--tokens") {
      for (size_t at = 0; at < value.size();) {
        size_t used = 0;
        tokens.push_back(std::stoi(value.substr(at), &used));
        at += used + 1;
      }
    }
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  model_params.use_extra_bufts = false;
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) {
    std::fprintf(stderr, "cannot load %s\n", argv[1]);
    return 1;
  }
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 4096;
  params.n_batch = 7;
  params.n_ubatch = 7;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.n_threads = 1;
  llama_context* context = llama_init_from_model(model, params);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  for (uint64_t state = seed; static_cast<int>(tokens.size()) < prompt;) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    tokens.push_back(static_cast<int>((state >> 33) % vocabulary));
  }
  prompt = static_cast<int>(tokens.size());
  std::printf("{\"source\":\"%s\",\n\"prompt_tokens\":%d,\n\"positions\":[",
              source.c_str(), prompt);
  for (int i = 0; i < positions; ++i) {
    llama_token token = tokens[i];
    if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) return 1;
    const float* logits = llama_get_logits_ith(context, -1);
    std::printf("%s\n", i ? "," : "");
    PrintPosition(logits, vocabulary);
    if (i + 1 >= static_cast<int>(tokens.size())) {
      tokens.push_back(ArgMax(logits, vocabulary));
    }
  }
  std::printf("],\n\"tokens\":[");
  for (int i = 0; i < positions; ++i) {
    std::printf("%s%d", i ? "," : "", tokens[i]);
  }
  std::printf("]}\n");
  llama_free(context);
  llama_model_free(model);
  return 0;
}
