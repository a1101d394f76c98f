// Token ids of texts, as llama.cpp's own tokenizer gives them: the source of
// tests/golden/tokenizer/*.jsonl. Reads lines {"text", "parse_special"} from
// stdin and writes them with "ids" added to stdout.
//
//   tokenizer_inputs.py | tokenize_oracle model.gguf > smollm.jsonl
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenize_oracle MODEL.gguf < inputs.jsonl\n");
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) {
    std::fprintf(stderr, "tokenize_oracle: cannot load %s\n", argv[1]);
    return 1;
  }
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::parse(line);
    const std::string text = entry.at("text").get<std::string>();
    std::vector<llama_token> ids(text.size() + 16);
    const int count = llama_tokenize(
        vocab, text.data(), static_cast<int>(text.size()), ids.data(),
        static_cast<int>(ids.size()), /*add_special=*/false,
        entry.at("parse_special").get<bool>());
    if (count < 0) {
      std::fprintf(stderr, "tokenize_oracle: too many tokens\n");
      return 1;
    }
    ids.resize(count);
    entry["ids"] = ids;
    std::cout << entry.dump() << "\n";
  }
  llama_model_free(model);
  return 0;
}
