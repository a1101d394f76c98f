#include "services/gguf/gguf_header.h"

#include <fstream>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/gguf/end_tokens.h"
#include "tests/unit/services/gguf_bytes.h"

namespace baton::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The error of a header that must be refused, in one line.
std::string ErrorOf(absl::string_view bytes) {
  const auto header = GgufHeader::FromBytes(bytes);
  EXPECT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(header.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

// A header with one tensor after the standard start, padded.
std::string OneTensor(std::initializer_list<uint64_t> shape, uint32_t type,
                      uint64_t offset = 0) {
  return ByteWriter()
      .PutStart(3, 1, 0)
      .PutTensor("w", shape, type, offset)
      .PadTo(32)
      .bytes();
}

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(GgufHeader, ReadsEveryKindOfValue) {
  const auto header = GgufHeader::FromBytes(SmallHeader());
  ASSERT_TRUE(header.ok()) << header.status();
  const GgufHeader& h = **header;
  EXPECT_EQ(*h.String("general.architecture"), "llama");
  EXPECT_EQ(*h.Unsigned("a.u8"), 200u);
  EXPECT_EQ(*h.Unsigned("a.u32"), 7u);
  EXPECT_EQ(*h.Unsigned("a.u64"), UINT64_MAX);
  EXPECT_EQ(*h.Float("a.f32"), 1.5);
  EXPECT_EQ(*h.Float("a.f64"), 2.5);
  EXPECT_TRUE(*h.Bool("a.bool"));
  EXPECT_THAT(*h.StringArray("a.strings"), ElementsAre("x", "", "yz"));
  EXPECT_THAT(*h.IntArray("a.numbers"), ElementsAre(3, -1, 2));
  EXPECT_THAT(*h.FloatArray("a.reals"), ElementsAre(0.5f, 0.25f));
  EXPECT_TRUE(h.Has("a.i8"));
  EXPECT_FALSE(h.Has("a"));
}

TEST(GgufHeader, PlacesTensorsBehindTheHeader) {
  const std::string bytes = SmallHeader();
  const auto header = GgufHeader::FromBytes(bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ((*header)->header_bytes(), bytes.size());
  ASSERT_EQ((*header)->tensors().size(), 2u);
  const GgufTensorInfo* matrix = (*header)->FindTensor("matrix");
  ASSERT_NE(matrix, nullptr);
  EXPECT_THAT(matrix->shape, ElementsAre(64, 3));
  EXPECT_EQ(matrix->size_bytes, 3u * 2 * 18);
  EXPECT_EQ(matrix->file_offset, bytes.size());
  const GgufTensorInfo* vector = (*header)->FindTensor("vector");
  ASSERT_NE(vector, nullptr);
  EXPECT_EQ(vector->file_offset, bytes.size() + 128);
  EXPECT_EQ((*header)->FindTensor("none"), nullptr);
}

TEST(GgufHeader, NamesTheKeyThatIsMissingOrOfAnotherType) {
  const auto header = GgufHeader::FromBytes(SmallHeader());
  ASSERT_TRUE(header.ok());
  const GgufHeader& h = **header;
  EXPECT_EQ(h.String("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(h.String("b").status().message()), HasSubstr("b"));
  for (const absl::Status& status :
       {h.String("a.u8").status(), h.Unsigned("a.i8").status(),
        h.Unsigned("a.f32").status(), h.Unsigned("a.bool").status(),
        h.Unsigned("a.numbers").status(), h.Float("a.u32").status(),
        h.Bool("a.u8").status(), h.StringArray("a.numbers").status(),
        h.StringArray("a.u8").status(), h.IntArray("a.reals").status(),
        h.IntArray("a.strings").status(), h.FloatArray("a.numbers").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a."));
  }
}

TEST(GgufHeader, AcceptsAHeaderWithoutTensors) {
  const std::string bytes = ByteWriter()
                                .PutStart(2, 0, 1)
                                .PutString("k")
                                .Put<uint32_t>(GGUF_TYPE_UINT16)
                                .Put<uint16_t>(9)
                                .bytes();
  const auto header = GgufHeader::FromBytes(bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(*(*header)->Unsigned("k"), 9u);
  EXPECT_EQ((*header)->header_bytes(), bytes.size());
}

TEST(GgufHeader, RefusesWhatIsNotAGgufOfAKnownVersion) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("magic"));
  EXPECT_THAT(ErrorOf("GGML...."), HasSubstr("magic"));
  EXPECT_THAT(ErrorOf(ByteWriter().PutStart(1, 0, 0).bytes()),
              HasSubstr("version 1"));
  EXPECT_THAT(ErrorOf(ByteWriter().PutStart(4, 0, 0).bytes()),
              HasSubstr("version 4"));
}

TEST(GgufHeader, RefusesCountsThatTheFileCannotHold) {
  EXPECT_THAT(ErrorOf(ByteWriter().PutStart(3, UINT64_MAX, 0).bytes()),
              HasSubstr("tensors"));
  EXPECT_THAT(ErrorOf(ByteWriter().PutStart(3, 0, UINT64_MAX).bytes()),
              HasSubstr("keys"));
}

TEST(GgufHeader, RefusesHostileValues) {
  const auto start = [] {
    ByteWriter writer;
    writer.PutStart(3, 0, 1).PutString("bad.key");
    return writer;
  };
  EXPECT_THAT(ErrorOf(start().Put<uint32_t>(99).Put<uint64_t>(0).bytes()),
              HasSubstr("bad.key"));
  EXPECT_THAT(ErrorOf(start()
                          .Put<uint32_t>(GGUF_TYPE_STRING)
                          .Put<uint64_t>(UINT64_MAX)
                          .bytes()),
              HasSubstr("bad.key"));
  EXPECT_THAT(ErrorOf(start()
                          .Put<uint32_t>(GGUF_TYPE_ARRAY)
                          .Put<uint32_t>(GGUF_TYPE_UINT64)
                          .Put<uint64_t>(uint64_t{1} << 61)
                          .bytes()),
              HasSubstr("bad.key"));
  EXPECT_THAT(ErrorOf(start()
                          .Put<uint32_t>(GGUF_TYPE_ARRAY)
                          .Put<uint32_t>(GGUF_TYPE_ARRAY)
                          .Put<uint64_t>(0)
                          .bytes()),
              HasSubstr("array of arrays"));
  EXPECT_THAT(ErrorOf(start()
                          .Put<uint32_t>(GGUF_TYPE_STRING)
                          .PutString(std::string("a\0b", 3))
                          .bytes()),
              HasSubstr("zero byte"));
}

TEST(GgufHeader, RefusesDuplicates) {
  ByteWriter keys;
  keys.PutStart(3, 0, 2);
  for (int i = 0; i < 2; ++i) {
    keys.PutString("same").Put<uint32_t>(GGUF_TYPE_UINT8).Put<uint8_t>(1);
  }
  EXPECT_THAT(ErrorOf(keys.bytes()), HasSubstr("same occurs twice"));
  ByteWriter tensors;
  tensors.PutStart(3, 2, 0);
  tensors.PutTensor("same", {8}, GGML_TYPE_F32, 0);
  tensors.PutTensor("same", {8}, GGML_TYPE_F32, 32).PadTo(32);
  EXPECT_THAT(ErrorOf(tensors.bytes()), HasSubstr("same occurs twice"));
}

TEST(GgufHeader, RefusesAlignmentsThatGgmlCannotUse) {
  for (const uint32_t alignment : {0u, 1u, 16u, 33u, 48u, 1u << 31}) {
    EXPECT_THAT(ErrorOf(ByteWriter()
                            .PutStart(3, 0, 1)
                            .PutString("general.alignment")
                            .Put<uint32_t>(GGUF_TYPE_UINT32)
                            .Put(alignment)
                            .bytes()),
                HasSubstr("general.alignment"));
  }
  EXPECT_THAT(ErrorOf(ByteWriter()
                          .PutStart(3, 0, 1)
                          .PutString("general.alignment")
                          .Put<uint32_t>(GGUF_TYPE_UINT64)
                          .Put<uint64_t>(64)
                          .bytes()),
              HasSubstr("general.alignment"));
}

TEST(GgufHeader, RefusesImpossibleTensors) {
  EXPECT_THAT(ErrorOf(OneTensor({}, GGML_TYPE_F32)), HasSubstr("tensor w"));
  EXPECT_THAT(ErrorOf(OneTensor({1, 1, 1, 1, 1}, GGML_TYPE_F32)),
              HasSubstr("5 dimensions"));
  EXPECT_THAT(ErrorOf(OneTensor({8, 0}, GGML_TYPE_F32)), HasSubstr("tensor w"));
  EXPECT_THAT(
      ErrorOf(OneTensor({uint64_t{1} << 32, uint64_t{1} << 32}, GGML_TYPE_F32)),
      HasSubstr("tensor w"));
  EXPECT_THAT(ErrorOf(OneTensor({INT64_MAX / 2}, GGML_TYPE_F32)),
              HasSubstr("tensor w"));
  EXPECT_THAT(ErrorOf(OneTensor({UINT64_MAX}, GGML_TYPE_F32)),
              HasSubstr("tensor w"));
  EXPECT_THAT(ErrorOf(OneTensor({8}, 4)), HasSubstr("unknown type 4"));
  EXPECT_THAT(ErrorOf(OneTensor({8}, 4000)), HasSubstr("unknown type"));
  EXPECT_THAT(ErrorOf(OneTensor({33}, GGML_TYPE_Q4_0)),
              HasSubstr("multiple of 32"));
  EXPECT_THAT(ErrorOf(OneTensor({8}, GGML_TYPE_F32, 8)),
              HasSubstr("starts at 8"));
  EXPECT_THAT(ErrorOf(OneTensor({8}, GGML_TYPE_F32, UINT64_MAX)),
              HasSubstr("tensor w"));
  const std::string long_name(64, 'n');
  EXPECT_THAT(ErrorOf(ByteWriter()
                          .PutStart(3, 1, 0)
                          .PutTensor(long_name, {8}, GGML_TYPE_F32, 0)
                          .PadTo(32)
                          .bytes()),
              HasSubstr("tensor 0 has an invalid name"));
}

TEST(GgufHeader, ChecksTheTensorsOfAFileAgainstItsSize) {
  const std::string header = SmallHeader();
  const std::string whole = header + std::string(128 + 20, '\1');
  EXPECT_TRUE(GgufHeader::FromFile(WriteFile("whole.gguf", whole)).ok());
  const auto cut = GgufHeader::FromFile(
      WriteFile("cut.gguf", whole.substr(0, whole.size() - 1)));
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("tensor vector"));
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("cut.gguf"));
}

TEST(GgufHeader, ReportsFilesThatCannotBeRead) {
  EXPECT_EQ(GgufHeader::FromFile("/nonexistent/x.gguf").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(GgufHeader::FromFile(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GgufHeader::FromFile(WriteFile("empty.gguf", "")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GgufHeader, RefusesAHeaderCutAnywhere) {
  const std::string bytes = SmallHeader();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ErrorOf(absl::string_view(bytes).substr(0, size));
  }
}

// A damaged header is either refused with one line, or is another
// well-formed one that can be read whole.
TEST(GgufHeader, SurvivesEveryFlippedBit) {
  const std::string bytes = SmallHeader();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto header = GgufHeader::FromBytes(damaged);
    if (!header.ok()) {
      EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    for (const GgufTensorInfo& info : (*header)->tensors()) {
      EXPECT_EQ(info.file_offset % 32, 0u);
      EXPECT_GT(info.size_bytes, 0u);
    }
  }
}

class DemoHeader : public ::testing::Test {
 protected:
  static std::string Bytes() {
    const auto header = GgufHeader::FromFile(BATON_DEMO_MODEL);
    EXPECT_TRUE(header.ok()) << header.status();
    std::string bytes((*header)->header_bytes(), '\0');
    std::ifstream(BATON_DEMO_MODEL, std::ios::binary)
        .read(bytes.data(), bytes.size());
    return bytes;
  }
};

TEST_F(DemoHeader, ReadsTheSameFromFileAndFromBytes) {
  const auto file = GgufHeader::FromFile(BATON_DEMO_MODEL);
  const auto bytes = GgufHeader::FromBytes(Bytes());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ((*bytes)->tensors().size(), 272u);
  EXPECT_EQ((*bytes)->tensors().size(), (*file)->tensors().size());
  EXPECT_EQ((*bytes)->tensors().back().file_offset,
            (*file)->tensors().back().file_offset);
  EXPECT_EQ(*(*bytes)->Unsigned("llama.block_count"), 30u);
  EXPECT_EQ((*bytes)->StringArray("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_THAT(EndTokens(**bytes), ElementsAre(0, 2));
}

TEST_F(DemoHeader, RefusesItsHeaderCutAtFiftyPlaces) {
  const std::string bytes = Bytes();
  for (size_t i = 0; i < 50; ++i) {
    ErrorOf(absl::string_view(bytes).substr(0, bytes.size() * i / 50));
  }
}

TEST_F(DemoHeader, SurvivesTwoHundredDamagedBytes) {
  const std::string bytes = Bytes();
  constexpr uint32_t kSeed = 20240917;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = bytes;
    // Half of them where the numbers are: the start and the tensor table.
    const size_t place = i % 4 == 0   ? random() % 2048
                         : i % 4 == 1 ? bytes.size() - 1 - random() % 16384
                                      : random() % bytes.size();
    damaged[place] = static_cast<char>(random());
    const auto header = GgufHeader::FromBytes(damaged);
    if (!header.ok()) {
      EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument)
          << "seed " << kSeed << ", place " << place;
    }
  }
}

TEST(EndTokens, TakesNamedIdsAndControlTokensWithEndText) {
  gguf_context* out = gguf_init_empty();
  const char* tokens[] = {"a", "<|im_end|>", "</s>", "<|eot_id|>", "z"};
  gguf_set_arr_str(out, "tokenizer.ggml.tokens", tokens, 5);
  const int32_t types[] = {1, 3, 1, 3, 1};  // "</s>" is ordinary text here
  gguf_set_arr_data(out, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types,
                    5);
  gguf_set_val_u32(out, "tokenizer.ggml.eos_token_id", 4);
  gguf_set_val_u32(out, "tokenizer.ggml.eot_token_id", 5);  // out of range
  std::string bytes(gguf_get_meta_size(out), '\0');
  gguf_get_meta_data(out, bytes.data());
  gguf_free(out);
  const auto header = GgufHeader::FromBytes(bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_THAT(EndTokens(**header), ElementsAre(1, 3, 4));
}

}  // namespace
}  // namespace baton::gguf
