// A small byte-level vocabulary as the bytes of a GGUF header: one token per
// byte (token n is the byte n), some merges, and ChatML's special tokens.
#ifndef BATON_TESTS_UNIT_SERVICES_TEXT_VOCABULARY_BYTES_H_
#define BATON_TESTS_UNIT_SERVICES_TEXT_VOCABULARY_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace baton::text {

struct SmallVocabulary {
  enum : int32_t {
    kHe = 256,
    kLl = 257,
    kHell = 258,
    kHello = 259,
    kSpaceHello = 260,
    kStart = 261,
    kEnd = 262,
    kThink = 263,  // user defined
    kCount = 264,
  };

  std::string model = "gpt2";
  std::string pre = "smollm";
  std::string without;  // a key to leave out
  bool add_bos = false;
  uint32_t bos_id = kStart;
  uint32_t eos_id = kEnd;
  std::string further_id_key;  // set: a key with the id below
  uint32_t further_id = 0;
  std::string architecture;  // set: general.architecture, and a context of 128
  int64_t embedding_rows = 0;  // set: token_embd.weight with so many

  // "\u0120" stands for the space, as in GPT-2's alphabet.
  static std::string ByteName(int byte) {
    const bool itself =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    int code = byte;
    if (!itself) {
      code = 0x100;
      for (int b = 0; b < byte; ++b) {
        code += !((b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD));
      }
    }
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | code >> 6),
            static_cast<char>(0x80 | (code & 0x3F))};
  }

  std::string Bytes() const {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteName(byte));
    for (const char* text : {"he", "ll", "hell", "hello", "\u0120hello",
                             "<|im_start|>", "<|im_end|>", "<think>"}) {
      tokens.push_back(text);
    }
    const std::vector<std::string> merges = {"h e", "l l", "he ll", "hell o",
                                             "\u0120 hello"};
    std::vector<int32_t> types(kCount, 1);
    types[kStart] = types[kEnd] = 3;
    types[kThink] = 4;
    gguf_context* out = gguf_init_empty();
    gguf_set_val_str(out, "tokenizer.ggml.model", model.c_str());
    gguf_set_val_str(out, "tokenizer.ggml.pre", pre.c_str());
    SetStrings(out, "tokenizer.ggml.tokens", tokens);
    SetStrings(out, "tokenizer.ggml.merges", merges);
    gguf_set_arr_data(out, "tokenizer.ggml.token_type", GGUF_TYPE_INT32,
                      types.data(), types.size());
    gguf_set_val_u32(out, "tokenizer.ggml.bos_token_id", bos_id);
    gguf_set_val_u32(out, "tokenizer.ggml.eos_token_id", eos_id);
    if (!further_id_key.empty()) {
      gguf_set_val_u32(out, further_id_key.c_str(), further_id);
    }
    if (!architecture.empty()) {
      gguf_set_val_str(out, "general.architecture", architecture.c_str());
      gguf_set_val_u32(out, (architecture + ".context_length").c_str(), 128);
    }
    gguf_set_val_bool(out, "tokenizer.ggml.add_bos_token", add_bos);
    if (!without.empty()) gguf_remove_key(out, without.c_str());
    ggml_context* tensors =
        ggml_init({ggml_tensor_overhead(), nullptr, /*no_alloc=*/true});
    if (embedding_rows > 0) {
      ggml_tensor* embedding =
          ggml_new_tensor_2d(tensors, GGML_TYPE_F32, 2, embedding_rows);
      ggml_set_name(embedding, "token_embd.weight");
      gguf_add_tensor(out, embedding);
    }
    std::string bytes(gguf_get_meta_size(out), '\0');
    gguf_get_meta_data(out, bytes.data());
    gguf_free(out);
    ggml_free(tensors);
    return bytes;
  }

 private:
  static void SetStrings(gguf_context* out, const char* key,
                         const std::vector<std::string>& values) {
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    gguf_set_arr_str(out, key, pointers.data(), pointers.size());
  }
};

}  // namespace baton::text

#endif  // BATON_TESTS_UNIT_SERVICES_TEXT_VOCABULARY_BYTES_H_
