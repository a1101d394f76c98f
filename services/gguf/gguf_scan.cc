#include "services/gguf/gguf_scan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ggml.h"
#include "gguf.h"
#include "services/base/checked_math.h"
#include "services/base/status_macros.h"

namespace baton::gguf {
namespace {

// Real headers are some ten megabytes (the vocabulary). ggml's reader needs
// up to four times the header's size.
constexpr uint64_t kMaxHeaderBytes = uint64_t{128} << 20;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// The least that a key-value pair and a tensor take: an empty name, the type,
// one byte of value; an empty name, dimensions, type and offset.
constexpr uint64_t kMinPairBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("GGUF: ", what));
}

class ByteCursor {
 public:
  explicit ByteCursor(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  bool Read(T* value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool ReadString(absl::string_view* value) {
    uint64_t size;
    if (!Read(&size) || size > remaining()) return false;
    *value = bytes_.substr(position_, size);
    position_ += size;
    return true;
  }
  bool Skip(uint64_t count) {
    if (count > remaining()) return false;
    position_ += count;
    return true;
  }
  uint64_t remaining() const { return bytes_.size() - position_; }
  uint64_t position() const { return position_; }

 private:
  absl::string_view bytes_;
  uint64_t position_ = 0;
};

// Bytes of one element; 0 for strings, arrays and unknown types.
uint64_t FixedSize(uint32_t type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

bool HasZeroByte(absl::string_view text) {
  return text.find('\0') != absl::string_view::npos;
}

class Scanner {
 public:
  Scanner(absl::string_view bytes, std::optional<uint64_t> file_bytes)
      : cursor_(bytes.substr(0, kMaxHeaderBytes)),
        capped_(bytes.size() > kMaxHeaderBytes),
        file_bytes_(file_bytes) {}

  absl::StatusOr<GgufScan> Run() {
    uint64_t tensors = 0;
    uint64_t pairs = 0;
    BATON_RETURN_IF_ERROR(ReadCounts(&tensors, &pairs));
    for (uint64_t i = 0; i < pairs; ++i) BATON_RETURN_IF_ERROR(ReadPair(i));
    for (uint64_t i = 0; i < tensors; ++i) BATON_RETURN_IF_ERROR(ReadTensor(i));
    if (tensors > 0 &&
        !cursor_.Skip((alignment_ - cursor_.position() % alignment_) %
                      alignment_)) {
      return Ends("the padding before the tensor data");
    }
    scan_.header_bytes = cursor_.position();
    BATON_RETURN_IF_ERROR(PlaceTensors());
    return std::move(scan_);
  }

 private:
  absl::Status Ends(absl::string_view inside) const {
    if (capped_) {
      return Invalid(absl::StrCat("the header is larger than ",
                                  kMaxHeaderBytes >> 20, " MiB (in ", inside,
                                  ")"));
    }
    return Invalid(absl::StrCat("the file ends inside ", inside));
  }

  absl::Status ReadCounts(uint64_t* tensors, uint64_t* pairs) {
    char magic[4];
    uint32_t version;
    if (!cursor_.Read(&magic)) return Ends("the magic number");
    if (std::memcmp(magic, GGUF_MAGIC, 4) != 0) {
      return Invalid("not a GGUF file (wrong magic number)");
    }
    if (!cursor_.Read(&version)) return Ends("the version");
    if (version != 2 && version != 3) {
      return Invalid(
          absl::StrCat("version ", version, " is not supported (2 and 3 are)"));
    }
    if (!cursor_.Read(tensors) || !cursor_.Read(pairs)) {
      return Ends("the counts");
    }
    if (*pairs > cursor_.remaining() / kMinPairBytes) {
      return Invalid(absl::StrCat(*pairs, " keys do not fit into the file"));
    }
    if (*tensors > cursor_.remaining() / kMinTensorBytes) {
      return Invalid(
          absl::StrCat(*tensors, " tensors do not fit into the file"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPair(uint64_t index) {
    const std::string place = absl::StrCat("key ", index);
    absl::string_view key;
    uint32_t type;
    if (!cursor_.ReadString(&key)) return Ends(place);
    const std::string name = absl::StrCat("key ", PrintableName(key));
    if (key.empty() || key.size() > kMaxKeyBytes || HasZeroByte(key)) {
      return Invalid(absl::StrCat(place, " has an invalid name"));
    }
    if (!seen_keys_.insert(key).second) {
      return Invalid(absl::StrCat(name, " occurs twice"));
    }
    if (!cursor_.Read(&type)) return Ends(name);
    if (key == GGUF_KEY_GENERAL_ALIGNMENT) return ReadAlignment(key, type);
    scan_.keys.emplace_back(key);
    if (type == GGUF_TYPE_ARRAY) return ReadArray(name);
    return ReadElements(name, type, 1);
  }

  absl::Status ReadAlignment(absl::string_view key, uint32_t type) {
    uint32_t value;
    if (type != GGUF_TYPE_UINT32) {
      return Invalid(absl::StrCat("key ", key, " must be a u32"));
    }
    if (!cursor_.Read(&value)) return Ends(absl::StrCat("key ", key));
    // ggml's CPU buffers need 32.
    if (value < 32 || value > kMaxAlignment || (value & (value - 1)) != 0) {
      return Invalid(absl::StrCat("key ", key, " is ", value,
                                  ", not a power of two from 32 to ",
                                  kMaxAlignment));
    }
    alignment_ = value;
    scan_.keys.emplace_back(key);
    return absl::OkStatus();
  }

  absl::Status ReadArray(const std::string& name) {
    uint32_t type;
    uint64_t count;
    if (!cursor_.Read(&type) || !cursor_.Read(&count)) return Ends(name);
    if (type == GGUF_TYPE_ARRAY) {
      return Invalid(
          absl::StrCat(name, " is an array of arrays, which is not supported"));
    }
    return ReadElements(name, type, count);
  }

  absl::Status ReadElements(const std::string& name, uint32_t type,
                            uint64_t count) {
    if (type == GGUF_TYPE_STRING) {
      for (uint64_t i = 0; i < count; ++i) {
        absl::string_view value;
        if (!cursor_.ReadString(&value)) return Ends(name);
        // ggml hands strings out as C strings, which would cut them.
        if (HasZeroByte(value)) {
          return Invalid(absl::StrCat(name, " holds a zero byte"));
        }
      }
      return absl::OkStatus();
    }
    const uint64_t size = FixedSize(type);
    if (size == 0) {
      return Invalid(absl::StrCat(name, " has the unknown type ", type));
    }
    const std::optional<uint64_t> total = CheckedMul(count, size);
    if (!total || !cursor_.Skip(*total)) return Ends(name);
    return absl::OkStatus();
  }

  absl::Status ReadTensor(uint64_t index) {
    const std::string place = absl::StrCat("tensor ", index);
    absl::string_view raw_name;
    if (!cursor_.ReadString(&raw_name)) return Ends(place);
    const std::string name = absl::StrCat("tensor ", PrintableName(raw_name));
    if (raw_name.empty() || raw_name.size() >= GGML_MAX_NAME ||
        HasZeroByte(raw_name)) {
      return Invalid(absl::StrCat(place, " has an invalid name"));
    }
    if (!seen_tensors_.insert(raw_name).second) {
      return Invalid(absl::StrCat(name, " occurs twice"));
    }
    GgufTensorInfo info;
    info.name = std::string(raw_name);
    BATON_RETURN_IF_ERROR(ReadShape(name, &info));
    uint32_t type;
    if (!cursor_.Read(&type) || !cursor_.Read(&info.file_offset)) {
      return Ends(name);
    }
    BATON_RETURN_IF_ERROR(SetSize(name, type, &info));
    scan_.tensors.push_back(std::move(info));
    return absl::OkStatus();
  }

  absl::Status ReadShape(const std::string& name, GgufTensorInfo* info) {
    uint32_t dimensions;
    if (!cursor_.Read(&dimensions)) return Ends(name);
    if (dimensions < 1 || dimensions > GGML_MAX_DIMS) {
      return Invalid(absl::StrCat(name, " has ", dimensions, " dimensions"));
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
      uint64_t size;
      if (!cursor_.Read(&size)) return Ends(name);
      const std::optional<uint64_t> product = CheckedMul(elements, size);
      if (size == 0 || !product || *product > INT64_MAX) {
        return Invalid(absl::StrCat(name, " has dimension ", i, " of ", size));
      }
      elements = *product;
      info->shape.push_back(static_cast<int64_t>(size));
    }
    return absl::OkStatus();
  }

  absl::Status SetSize(const std::string& name, uint32_t type,
                       GgufTensorInfo* info) {
    const ggml_type ggml = static_cast<ggml_type>(type);
    if (type >= GGML_TYPE_COUNT || ggml_blck_size(ggml) <= 0 ||
        ggml_type_size(ggml) == 0) {
      return Invalid(absl::StrCat(name, " has the unknown type ", type));
    }
    const int64_t block = ggml_blck_size(ggml);
    if (info->shape[0] % block != 0) {
      return Invalid(absl::StrCat(name, " has rows of ", info->shape[0],
                                  ", not a multiple of ", block, " (",
                                  ggml_type_name(ggml), ")"));
    }
    std::optional<uint64_t> size =
        static_cast<uint64_t>(info->shape[0] / block);
    for (size_t i = 1; i < info->shape.size() && size; ++i) {
      size = CheckedMul(*size, static_cast<uint64_t>(info->shape[i]));
    }
    if (size) size = CheckedMul(*size, ggml_type_size(ggml));
    // ggml adds the alignment to it.
    if (!size || *size > INT64_MAX - kMaxAlignment) {
      return Invalid(absl::StrCat(name, " is too large"));
    }
    info->type = ggml;
    info->size_bytes = *size;
    return absl::OkStatus();
  }

  // Offsets in the file are relative to the data; ggml's reader wants the
  // tensors one after the other, each aligned.
  absl::Status PlaceTensors() {
    uint64_t expected = 0;
    for (GgufTensorInfo& info : scan_.tensors) {
      const std::string name =
          absl::StrCat("tensor ", PrintableName(info.name));
      if (info.file_offset != expected) {
        return Invalid(absl::StrCat(name, " starts at ", info.file_offset,
                                    " instead of ", expected));
      }
      const std::optional<uint64_t> end = CheckedAdd(expected, info.size_bytes);
      const std::optional<uint64_t> padded =
          end ? CheckedAdd(*end, alignment_ - 1) : std::nullopt;
      const std::optional<uint64_t> file_end =
          end ? CheckedAdd(*end, scan_.header_bytes) : std::nullopt;
      if (!padded || !file_end) {
        return Invalid(absl::StrCat(name, " is too large"));
      }
      if (file_bytes_ && *file_end > *file_bytes_) {
        return Invalid(absl::StrCat(name, " ends at ", *file_end,
                                    ", the file at ", *file_bytes_));
      }
      info.file_offset = expected + scan_.header_bytes;
      expected = *padded / alignment_ * alignment_;
    }
    return absl::OkStatus();
  }

  ByteCursor cursor_;
  const bool capped_;
  const std::optional<uint64_t> file_bytes_;
  uint64_t alignment_ = GGUF_DEFAULT_ALIGNMENT;
  absl::flat_hash_set<absl::string_view> seen_keys_;
  absl::flat_hash_set<absl::string_view> seen_tensors_;
  GgufScan scan_;
};

}  // namespace

absl::StatusOr<GgufScan> ScanGguf(absl::string_view bytes,
                                  std::optional<uint64_t> file_bytes) {
  return Scanner(bytes, file_bytes).Run();
}

std::string PrintableName(absl::string_view name) {
  return absl::CHexEscape(name.substr(0, 64));
}

}  // namespace baton::gguf
