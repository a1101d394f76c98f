// The walk over a GGUF header's raw bytes that decides whether ggml's reader
// may see them. Every length and count is checked with arithmetic that cannot
// overflow and against the bytes that are there; nothing is allocated in
// proportion to a number in the file.
//
// Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef BATON_SERVICES_GGUF_GGUF_SCAN_H_
#define BATON_SERVICES_GGUF_GGUF_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gguf/gguf_header.h"

namespace baton::gguf {

struct GgufScan {
  std::vector<std::string> keys;  // in file order
  std::vector<GgufTensorInfo> tensors;
  // Offset of the tensor data; without tensors, the end of the header.
  uint64_t header_bytes = 0;
};

// `bytes`: the file's first bytes, at least the whole header. `file_bytes`:
// size of the file that tensors must lie in; nullopt = extents unchecked.
// Errors: kInvalidArgument, one line naming the key or tensor.
absl::StatusOr<GgufScan> ScanGguf(absl::string_view bytes,
                                  std::optional<uint64_t> file_bytes);

// A name from a file, fit for an error message: at most 64 characters,
// anything but printable ASCII escaped.
std::string PrintableName(absl::string_view name);

}  // namespace baton::gguf

#endif  // BATON_SERVICES_GGUF_GGUF_SCAN_H_
