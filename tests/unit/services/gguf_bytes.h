// Builds GGUF headers in memory, for tests that then damage them.
#ifndef BATON_TESTS_UNIT_SERVICES_GGUF_BYTES_H_
#define BATON_TESTS_UNIT_SERVICES_GGUF_BYTES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace baton::gguf {

// Raw values in file order; strings are preceded by their length.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ByteWriter& PutString(const std::string& text) {
    Put<uint64_t>(text.size());
    bytes_.append(text);
    return *this;
  }
  // Magic, version and counts.
  ByteWriter& PutStart(uint32_t version, uint64_t tensors, uint64_t pairs) {
    bytes_.append(GGUF_MAGIC, 4);
    return Put(version).Put(tensors).Put(pairs);
  }
  ByteWriter& PutTensor(const std::string& name,
                        std::initializer_list<uint64_t> shape, uint32_t type,
                        uint64_t offset) {
    PutString(name).Put<uint32_t>(shape.size());
    for (const uint64_t size : shape) Put(size);
    return Put(type).Put(offset);
  }
  ByteWriter& PadTo(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A well-formed header of every kind of value and two tensors, written by
// ggml's own writer.
inline std::string SmallHeader() {
  gguf_context* out = gguf_init_empty();
  gguf_set_val_str(out, "general.architecture", "llama");
  gguf_set_val_u8(out, "a.u8", 200);
  gguf_set_val_i8(out, "a.i8", -5);
  gguf_set_val_u32(out, "a.u32", 7);
  gguf_set_val_u64(out, "a.u64", UINT64_MAX);
  gguf_set_val_i64(out, "a.i64", -9);
  gguf_set_val_f32(out, "a.f32", 1.5f);
  gguf_set_val_f64(out, "a.f64", 2.5);
  gguf_set_val_bool(out, "a.bool", true);
  const char* names[] = {"x", "", "yz"};
  gguf_set_arr_str(out, "a.strings", names, 3);
  const int32_t numbers[] = {3, -1, 2};
  gguf_set_arr_data(out, "a.numbers", GGUF_TYPE_INT32, numbers, 3);
  const float reals[] = {0.5f, 0.25f};
  gguf_set_arr_data(out, "a.reals", GGUF_TYPE_FLOAT32, reals, 2);
  ggml_context* tensors =
      ggml_init({4 * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true});
  ggml_tensor* matrix = ggml_new_tensor_2d(tensors, GGML_TYPE_Q4_0, 64, 3);
  ggml_set_name(matrix, "matrix");
  gguf_add_tensor(out, matrix);
  ggml_tensor* vector = ggml_new_tensor_1d(tensors, GGML_TYPE_F32, 5);
  ggml_set_name(vector, "vector");
  gguf_add_tensor(out, vector);
  std::string bytes(gguf_get_meta_size(out), '\0');
  gguf_get_meta_data(out, bytes.data());
  gguf_free(out);
  ggml_free(tensors);
  return bytes;
}

}  // namespace baton::gguf

#endif  // BATON_TESTS_UNIT_SERVICES_GGUF_BYTES_H_
