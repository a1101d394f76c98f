// The metadata of a GGUF file: everything before the tensor data. Read through
// ggml's reader after checks of our own, so that a truncated, corrupt or
// hostile file gives one line naming the tensor or key, never an abort.
// Immutable after creation; thread-safe.
#ifndef BATON_SERVICES_GGUF_GGUF_HEADER_H_
#define BATON_SERVICES_GGUF_GGUF_HEADER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::gguf {

struct GgufTensorInfo {
  std::string name;
  int type = 0;                // ggml_type
  std::vector<int64_t> shape;  // ggml order: ne[0] first, 1 to 4 entries
  uint64_t file_offset = 0;    // absolute
  uint64_t size_bytes = 0;
};

class GgufHeader {
 public:
  // Reads a file's header and checks every tensor against the file's size.
  static absl::StatusOr<std::unique_ptr<GgufHeader>> FromFile(
      const std::string& path);
  // From the header's bytes alone (ModelService.GetHeader); tensor extents are
  // not checked, since there is no file.
  static absl::StatusOr<std::unique_ptr<GgufHeader>> FromBytes(
      absl::string_view bytes);
  virtual ~GgufHeader() = default;

  // Value lookups. Missing key: NotFound; other type: InvalidArgument; both
  // name the key. Integers are accepted in any width that holds the value.
  virtual absl::StatusOr<std::string> String(absl::string_view key) const = 0;
  virtual absl::StatusOr<uint64_t> Unsigned(absl::string_view key) const = 0;
  virtual absl::StatusOr<double> Float(absl::string_view key) const = 0;
  virtual absl::StatusOr<bool> Bool(absl::string_view key) const = 0;
  virtual absl::StatusOr<std::vector<std::string>> StringArray(
      absl::string_view key) const = 0;
  virtual absl::StatusOr<std::vector<int64_t>> IntArray(
      absl::string_view key) const = 0;
  virtual absl::StatusOr<std::vector<float>> FloatArray(
      absl::string_view key) const = 0;
  virtual bool Has(absl::string_view key) const = 0;

  virtual const std::vector<GgufTensorInfo>& tensors() const = 0;
  // nullptr if there is none.
  virtual const GgufTensorInfo* FindTensor(absl::string_view name) const = 0;
  // Length of the header in bytes: offset of the tensor data.
  virtual uint64_t header_bytes() const = 0;
};

}  // namespace baton::gguf

#endif  // BATON_SERVICES_GGUF_GGUF_HEADER_H_
