#include "services/gguf/gguf_header.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gguf.h"
#include "services/base/status_macros.h"
#include "services/gguf/gguf_scan.h"

namespace baton::gguf {
namespace {

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
using GgufPointer = std::unique_ptr<gguf_context, GgufDeleter>;

absl::Status WrongType(absl::string_view key, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("GGUF key ", PrintableName(key), " is not ", wanted));
}

// Element `i` of integer data of `type`, as sign and magnitude would lose
// nothing: nullopt if the type is no integer or the value exceeds int64.
std::optional<int64_t> IntegerAt(gguf_type type, const void* data, size_t i) {
  const auto at = [&](auto tag) {
    return static_cast<const decltype(tag)*>(data)[i];
  };
  switch (type) {
    case GGUF_TYPE_UINT8:
      return at(uint8_t{});
    case GGUF_TYPE_INT8:
      return at(int8_t{});
    case GGUF_TYPE_UINT16:
      return at(uint16_t{});
    case GGUF_TYPE_INT16:
      return at(int16_t{});
    case GGUF_TYPE_UINT32:
      return at(uint32_t{});
    case GGUF_TYPE_INT32:
      return at(int32_t{});
    case GGUF_TYPE_INT64:
      return at(int64_t{});
    case GGUF_TYPE_UINT64: {
      const uint64_t value = at(uint64_t{});
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

class ParsedHeader final : public GgufHeader {
 public:
  ParsedHeader(GgufScan scan, GgufPointer context)
      : scan_(std::move(scan)), context_(std::move(context)) {
    for (size_t i = 0; i < scan_.keys.size(); ++i) key_ids_[scan_.keys[i]] = i;
    for (size_t i = 0; i < scan_.tensors.size(); ++i) {
      tensor_ids_[scan_.tensors[i].name] = i;
    }
  }

  absl::StatusOr<std::string> String(absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    if (gguf_get_kv_type(context_.get(), id) != GGUF_TYPE_STRING) {
      return WrongType(key, "a string");
    }
    return std::string(gguf_get_val_str(context_.get(), id));
  }

  absl::StatusOr<uint64_t> Unsigned(absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    const gguf_type type = gguf_get_kv_type(context_.get(), id);
    if (type == GGUF_TYPE_UINT64) return gguf_get_val_u64(context_.get(), id);
    std::optional<int64_t> value;
    if (IsNumber(type)) {
      value = IntegerAt(type, gguf_get_val_data(context_.get(), id), 0);
    }
    if (!value || *value < 0) return WrongType(key, "an unsigned integer");
    return static_cast<uint64_t>(*value);
  }

  absl::StatusOr<double> Float(absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    switch (gguf_get_kv_type(context_.get(), id)) {
      case GGUF_TYPE_FLOAT32:
        return gguf_get_val_f32(context_.get(), id);
      case GGUF_TYPE_FLOAT64:
        return gguf_get_val_f64(context_.get(), id);
      default:
        return WrongType(key, "a floating-point number");
    }
  }

  absl::StatusOr<bool> Bool(absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    if (gguf_get_kv_type(context_.get(), id) != GGUF_TYPE_BOOL) {
      return WrongType(key, "a boolean");
    }
    return gguf_get_val_bool(context_.get(), id);
  }

  absl::StatusOr<std::vector<std::string>> StringArray(
      absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    if (ArrayType(id) != GGUF_TYPE_STRING) {
      return WrongType(key, "an array of strings");
    }
    const size_t count = gguf_get_arr_n(context_.get(), id);
    std::vector<std::string> values;
    values.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      values.emplace_back(gguf_get_arr_str(context_.get(), id, i));
    }
    return values;
  }

  absl::StatusOr<std::vector<int64_t>> IntArray(
      absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    const std::optional<gguf_type> type = ArrayType(id);
    if (!type || !IsNumber(*type)) return WrongType(key, "an integer array");
    const void* data = gguf_get_arr_data(context_.get(), id);
    std::vector<int64_t> values(gguf_get_arr_n(context_.get(), id));
    for (size_t i = 0; i < values.size(); ++i) {
      const std::optional<int64_t> value = IntegerAt(*type, data, i);
      if (!value) return WrongType(key, "an array of 64-bit integers");
      values[i] = *value;
    }
    return values;
  }

  absl::StatusOr<std::vector<float>> FloatArray(
      absl::string_view key) const override {
    BATON_ASSIGN_OR_RETURN(const int64_t id, Find(key));
    if (ArrayType(id) != GGUF_TYPE_FLOAT32) {
      return WrongType(key, "an array of f32");
    }
    const float* data =
        static_cast<const float*>(gguf_get_arr_data(context_.get(), id));
    return std::vector<float>(data, data + gguf_get_arr_n(context_.get(), id));
  }

  bool Has(absl::string_view key) const override {
    return key_ids_.contains(key);
  }
  const std::vector<GgufTensorInfo>& tensors() const override {
    return scan_.tensors;
  }
  const GgufTensorInfo* FindTensor(absl::string_view name) const override {
    const auto it = tensor_ids_.find(name);
    return it == tensor_ids_.end() ? nullptr : &scan_.tensors[it->second];
  }
  uint64_t header_bytes() const override { return scan_.header_bytes; }

 private:
  static bool IsNumber(gguf_type type) {
    return type != GGUF_TYPE_STRING && type != GGUF_TYPE_ARRAY;
  }

  absl::StatusOr<int64_t> Find(absl::string_view key) const {
    const auto it = key_ids_.find(key);
    if (it == key_ids_.end()) {
      return absl::NotFoundError(
          absl::StrCat("GGUF key ", PrintableName(key), " is missing"));
    }
    return it->second;
  }

  // The element type, if key `id` is an array.
  std::optional<gguf_type> ArrayType(int64_t id) const {
    if (gguf_get_kv_type(context_.get(), id) != GGUF_TYPE_ARRAY) {
      return std::nullopt;
    }
    return gguf_get_arr_type(context_.get(), id);
  }

  const GgufScan scan_;
  const GgufPointer context_;
  absl::flat_hash_map<absl::string_view, int64_t> key_ids_;
  absl::flat_hash_map<absl::string_view, size_t> tensor_ids_;
};

absl::StatusOr<std::unique_ptr<GgufHeader>> Parse(
    absl::string_view bytes, std::optional<uint64_t> file_bytes) {
  BATON_ASSIGN_OR_RETURN(GgufScan scan, ScanGguf(bytes, file_bytes));
  GgufPointer context(gguf_init_from_buffer(
      bytes.data(), scan.header_bytes, {/*no_alloc=*/true, /*ctx=*/nullptr}));
  // The scan is stricter than ggml; this is the last line if they part ways.
  if (context == nullptr ||
      gguf_get_n_kv(context.get()) != static_cast<int64_t>(scan.keys.size()) ||
      gguf_get_data_offset(context.get()) != scan.header_bytes) {
    return absl::InvalidArgumentError("GGUF: ggml cannot read the header");
  }
  return std::make_unique<ParsedHeader>(std::move(scan), std::move(context));
}

absl::Status FileError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text)
                         : absl::InvalidArgumentError(text);
}

class FileView {
 public:
  ~FileView() {
    if (data_ != MAP_FAILED) munmap(data_, size_);
  }

  absl::Status Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return FileError(path, errno);
    struct stat info;
    const bool known = fstat(fd, &info) == 0;
    if (known && S_ISREG(info.st_mode) && info.st_size > 0) {
      size_ = info.st_size;
      data_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    }
    const int error = errno;
    close(fd);
    if (known && (!S_ISREG(info.st_mode) || info.st_size == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": not a file or empty"));
    }
    return data_ == MAP_FAILED ? FileError(path, error) : absl::OkStatus();
  }
  absl::string_view bytes() const {
    return {static_cast<const char*>(data_), size_};
  }

 private:
  void* data_ = MAP_FAILED;
  size_t size_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GgufHeader>> GgufHeader::FromFile(
    const std::string& path) {
  FileView file;
  BATON_RETURN_IF_ERROR(file.Open(path));
  absl::StatusOr<std::unique_ptr<GgufHeader>> header =
      Parse(file.bytes(), file.bytes().size());
  if (header.ok()) return header;
  return absl::Status(header.status().code(),
                      absl::StrCat(path, ": ", header.status().message()));
}

absl::StatusOr<std::unique_ptr<GgufHeader>> GgufHeader::FromBytes(
    absl::string_view bytes) {
  return Parse(bytes, std::nullopt);
}

}  // namespace baton::gguf
