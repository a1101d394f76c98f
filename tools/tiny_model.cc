// Writes a small random model as a GGUF file: seeded, the same bytes on every
// machine (no libm in the generator, ggml's portable quantisers), with a
// vocabulary cut from a real tokenizer. Tests run on such models; the weights
// are scaled so that the largest logit usually leads by a wide margin.
//
//   baton-tiny-model --vocabulary-from smollm2.gguf --architecture qwen3
//                    --type Q4_K --seed 7 --out tiny.gguf
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace {

struct Shape {
  std::string architecture = "llama";
  std::string type = "F32";
  std::string vocabulary_from;
  std::string out;
  uint64_t seed = 1;
  uint32_t layers = 2;
  uint32_t embedding = 256;
  uint32_t feed_forward = 512;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 64;
  uint32_t context = 4096;
  uint32_t vocabulary = 2048;
  bool tied = false;
  bool mtp = false;  // one MTP block behind the layers
};

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "baton-tiny-model: %s\n", message.c_str());
  std::exit(1);
}

// SplitMix64; the sum of twelve uniforms is close enough to a normal, and is
// exact in double on every machine.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  double Normal() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(Next() >> 32);
    return sum / 4294967296.0 - 6.0;
  }

 private:
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

uint64_t NameSeed(uint64_t seed, const std::string& name) {
  uint64_t hash = 1469598103934665603ull ^ (seed * 0x9e3779b97f4a7c15ull);
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

ggml_type FindType(const std::string& name) {
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const char* known = ggml_type_name(static_cast<ggml_type>(i));
    if (known != nullptr && strcasecmp(known, name.c_str()) == 0) {
      return static_cast<ggml_type>(i);
    }
  }
  Fail("unknown type " + name);
}

class Writer {
 public:
  explicit Writer(const Shape& shape)
      : shape_(shape), type_(FindType(shape.type)), file_(gguf_init_empty()) {
    ggml_init_params params{};
    params.mem_size = 1ull << 32;  // reserved, touched only where written
    context_ = ggml_init(params);
  }
  ~Writer() {
    gguf_free(file_);
    ggml_free(context_);
  }

  void Run() {
    WriteParameters();
    CopyVocabulary();
    WriteTensors();
    if (!gguf_write_to_file(file_, shape_.out.c_str(), false)) {
      Fail("cannot write " + shape_.out);
    }
  }

 private:
  std::string Key(const char* name) const {
    return shape_.architecture + "." + name;
  }
  void Uint(const char* name, uint32_t value) {
    gguf_set_val_u32(file_, Key(name).c_str(), value);
  }

  void WriteParameters() {
    gguf_set_val_str(file_, "general.architecture",
                     shape_.architecture.c_str());
    const std::string name = "tiny-" + shape_.architecture + "-" + shape_.type;
    gguf_set_val_str(file_, "general.name", name.c_str());
    Uint("block_count", shape_.layers + (shape_.mtp ? 1 : 0));
    if (shape_.mtp) Uint("nextn_predict_layers", 1);
    Uint("context_length", shape_.context);
    Uint("embedding_length", shape_.embedding);
    Uint("feed_forward_length", shape_.feed_forward);
    Uint("attention.head_count", shape_.heads);
    Uint("attention.head_count_kv", shape_.kv_heads);
    Uint("attention.key_length", shape_.head_dim);
    Uint("attention.value_length", shape_.head_dim);
    Uint("rope.dimension_count", shape_.head_dim);
    Uint("vocab_size", shape_.vocabulary);
    gguf_set_val_f32(file_, Key("attention.layer_norm_rms_epsilon").c_str(),
                     1e-5f);
    gguf_set_val_f32(file_, Key("rope.freq_base").c_str(), 10000.0f);
  }

  // The first ids of a byte-pair vocabulary are its special tokens, its bytes
  // and its earliest merges, so a prefix of it is again a tokenizer.
  void CopyVocabulary() {
    gguf_init_params params{};
    params.no_alloc = true;
    gguf_context* source =
        gguf_init_from_file(shape_.vocabulary_from.c_str(), params);
    if (source == nullptr) Fail("cannot read " + shape_.vocabulary_from);
    const auto find = [&](const char* key) {
      const int64_t id = gguf_find_key(source, key);
      if (id < 0) Fail(std::string("no key ") + key);
      return id;
    };
    const int64_t tokens = find("tokenizer.ggml.tokens");
    const int64_t types = find("tokenizer.ggml.token_type");
    const int64_t merges = find("tokenizer.ggml.merges");
    const size_t count = gguf_get_arr_n(source, tokens);
    if (count < shape_.vocabulary) Fail("source vocabulary is too small");
    std::set<std::string> kept;
    std::vector<const char*> texts;
    for (uint32_t i = 0; i < shape_.vocabulary; ++i) {
      texts.push_back(gguf_get_arr_str(source, tokens, i));
      kept.insert(texts.back());
    }
    std::vector<const char*> kept_merges;
    for (size_t i = 0; i < gguf_get_arr_n(source, merges); ++i) {
      const char* merge = gguf_get_arr_str(source, merges, i);
      const char* space = std::strchr(merge + 1, ' ');
      if (space == nullptr) continue;
      const std::string left(merge, space), right(space + 1);
      if (kept.count(left) && kept.count(right) && kept.count(left + right)) {
        kept_merges.push_back(merge);
      }
    }
    gguf_set_arr_str(file_, "tokenizer.ggml.tokens", texts.data(),
                     texts.size());
    gguf_set_arr_str(file_, "tokenizer.ggml.merges", kept_merges.data(),
                     kept_merges.size());
    gguf_set_arr_data(file_, "tokenizer.ggml.token_type", GGUF_TYPE_INT32,
                      gguf_get_arr_data(source, types), shape_.vocabulary);
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre",
                            "tokenizer.chat_template"}) {
      const int64_t id = gguf_find_key(source, key);
      if (id >= 0) gguf_set_val_str(file_, key, gguf_get_val_str(source, id));
    }
    for (const char* key :
         {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
          "tokenizer.ggml.unknown_token_id",
          "tokenizer.ggml.padding_token_id"}) {
      const int64_t id = gguf_find_key(source, key);
      if (id >= 0) gguf_set_val_u32(file_, key, gguf_get_val_u32(source, id));
    }
    for (const char* key :
         {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"}) {
      const int64_t id = gguf_find_key(source, key);
      if (id >= 0) {
        gguf_set_val_bool(file_, key, gguf_get_val_bool(source, id));
      }
    }
    gguf_free(source);
  }

  void Matrix(const std::string& name, int64_t in, int64_t out, double gain) {
    Add(name, type_, in, out, gain / std::sqrt(static_cast<double>(in)), 0);
  }
  void Norm(const std::string& name, int64_t size) {
    Add(name, GGML_TYPE_F32, size, 1, 0.1, 1.0);
  }
  void Bias(const std::string& name, int64_t size) {
    Add(name, GGML_TYPE_F32, size, 1, 0.2, 0);
  }

  void Add(const std::string& name, ggml_type type, int64_t in, int64_t out,
           double deviation, double mean) {
    if (in % ggml_blck_size(type) != 0) {
      Fail(name + ": rows of " + std::to_string(in) + " do not fit " +
           ggml_type_name(type));
    }
    Generator generator(NameSeed(shape_.seed, name));
    std::vector<float> values(static_cast<size_t>(in * out));
    for (float& value : values) {
      value = static_cast<float>(mean + deviation * generator.Normal());
    }
    ggml_tensor* tensor = out == 1
                              ? ggml_new_tensor_1d(context_, type, in)
                              : ggml_new_tensor_2d(context_, type, in, out);
    ggml_set_name(tensor, name.c_str());
    if (type == GGML_TYPE_F32) {
      std::memcpy(tensor->data, values.data(), values.size() * sizeof(float));
    } else {
      ggml_quantize_chunk(type, values.data(), tensor->data, 0, out, in,
                          nullptr);
    }
    gguf_add_tensor(file_, tensor);
  }

  void WriteTensors() {
    const int64_t d = shape_.embedding, vocabulary = shape_.vocabulary;
    // Logits of deviation 6 over 2,048 entries lead by about 1.2 (median).
    Matrix("token_embd.weight", d, vocabulary, shape_.tied ? 6.0 : 16.0);
    Norm("output_norm.weight", d);
    if (!shape_.tied) Matrix("output.weight", d, vocabulary, 6.0);
    for (uint32_t i = 0; i < shape_.layers; ++i) WriteLayer(i);
    if (!shape_.mtp) return;
    WriteLayer(shape_.layers);
    const std::string block = Block(shape_.layers) + "nextn.";
    Matrix(block + "eh_proj.weight", 2 * d, d, 4.0);
    Norm(block + "enorm.weight", d);
    Norm(block + "hnorm.weight", d);
    Norm(block + "shared_head_norm.weight", d);
    std::vector<int32_t> drafts;  // every other token
    for (int32_t id = 1; id < vocabulary; id += 2) drafts.push_back(id);
    gguf_set_arr_data(file_, "baton.mtp.draft_vocabulary", GGUF_TYPE_INT32,
                      drafts.data(), drafts.size());
  }

  static std::string Block(uint32_t layer) {
    return "blk." + std::to_string(layer) + ".";
  }

  void WriteLayer(uint32_t layer) {
    const int64_t d = shape_.embedding, q = shape_.heads * shape_.head_dim,
                  kv = shape_.kv_heads * shape_.head_dim,
                  ff = shape_.feed_forward;
    const std::string block = Block(layer);
    Norm(block + "attn_norm.weight", d);
    Matrix(block + "attn_q.weight", d, q, 1.5);
    Matrix(block + "attn_k.weight", d, kv, 1.5);
    Matrix(block + "attn_v.weight", d, kv, 1.5);
    Matrix(block + "attn_output.weight", q, d, 1.5);
    if (shape_.architecture == "qwen2") {
      Bias(block + "attn_q.bias", q);
      Bias(block + "attn_k.bias", kv);
      Bias(block + "attn_v.bias", kv);
    }
    if (shape_.architecture == "qwen3") {
      Norm(block + "attn_q_norm.weight", shape_.head_dim);
      Norm(block + "attn_k_norm.weight", shape_.head_dim);
    }
    Norm(block + "ffn_norm.weight", d);
    Matrix(block + "ffn_gate.weight", d, ff, 1.5);
    Matrix(block + "ffn_up.weight", d, ff, 1.5);
    Matrix(block + "ffn_down.weight", ff, d, 1.5);
  }

  const Shape shape_;
  const ggml_type type_;
  gguf_context* const file_;
  ggml_context* context_ = nullptr;
};

Shape ParseArguments(int argc, char** argv) {
  Shape shape;
  std::map<std::string, std::string*> texts = {
      {"--architecture", &shape.architecture},
      {"--type", &shape.type},
      {"--vocabulary-from", &shape.vocabulary_from},
      {"--out", &shape.out}};
  std::map<std::string, uint32_t*> numbers = {
      {"--layers", &shape.layers},
      {"--embedding", &shape.embedding},
      {"--feed-forward", &shape.feed_forward},
      {"--heads", &shape.heads},
      {"--kv-heads", &shape.kv_heads},
      {"--head-dim", &shape.head_dim},
      {"--context", &shape.context},
      {"--vocabulary", &shape.vocabulary}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--tied" || flag == "--mtp") {
      (flag == "--tied" ? shape.tied : shape.mtp) = true;
      continue;
    }
    if (i + 1 >= argc) Fail("no value for " + flag);
    const std::string value = argv[++i];
    if (texts.count(flag)) {
      *texts[flag] = value;
    } else if (numbers.count(flag)) {
      *numbers[flag] = static_cast<uint32_t>(std::stoul(value));
    } else if (flag == "--seed") {
      shape.seed = std::stoull(value);
    } else {
      Fail("unknown flag " + flag);
    }
  }
  if (shape.out.empty() || shape.vocabulary_from.empty()) {
    Fail("--vocabulary-from and --out are needed");
  }
  if (shape.architecture != "llama" && shape.architecture != "qwen2" &&
      shape.architecture != "qwen3") {
    Fail("unknown architecture " + shape.architecture);
  }
  return shape;
}

}  // namespace

int main(int argc, char** argv) {
  Writer(ParseArguments(argc, argv)).Run();
  return 0;
}
