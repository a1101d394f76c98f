#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gguf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/cache/block_pool.h"
#include "worker/model/model.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FreshDirectory(const std::string& name) {
  const std::string path = ::testing::TempDir() + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

// A llama of one layer, all zeros, that tests then spoil.
class TinyFile {
 public:
  TinyFile() : gguf_(gguf_init_empty()) {
    context_ = ggml_init({64 * ggml_tensor_overhead() + (size_t{1} << 20),
                          nullptr, /*no_alloc=*/false});
    gguf_set_val_str(gguf_, "general.architecture", "llama");
    Set("block_count", 1);
    Set("context_length", 128);
    Set("embedding_length", 32);
    Set("feed_forward_length", 64);
    Set("attention.head_count", 2);
    Set("attention.head_count_kv", 1);
    gguf_set_val_f32(gguf_, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    Add("token_embd.weight", {32, 40});
    Add("output_norm.weight", {32});
    Add("blk.0.attn_norm.weight", {32});
    Add("blk.0.attn_q.weight", {32, 32});
    Add("blk.0.attn_k.weight", {32, 16});
    Add("blk.0.attn_v.weight", {32, 16});
    Add("blk.0.attn_output.weight", {32, 32});
    Add("blk.0.ffn_norm.weight", {32});
    Add("blk.0.ffn_gate.weight", {32, 64});
    Add("blk.0.ffn_up.weight", {32, 64});
    Add("blk.0.ffn_down.weight", {64, 32});
  }
  ~TinyFile() {
    gguf_free(gguf_);
    ggml_free(context_);
  }

  void Set(const std::string& key, uint32_t value) {
    gguf_set_val_u32(gguf_, ("llama." + key).c_str(), value);
  }
  void SetText(const std::string& key, const std::string& value) {
    gguf_set_val_str(gguf_, key.c_str(), value.c_str());
  }
  void Remove(const std::string& key) { gguf_remove_key(gguf_, key.c_str()); }
  void Add(const std::string& name, std::vector<int64_t> shape,
           ggml_type type = GGML_TYPE_F32) {
    ggml_tensor* tensor =
        ggml_new_tensor(context_, type, shape.size(), shape.data());
    std::memset(tensor->data, 0, ggml_nbytes(tensor));
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf_, tensor);
  }
  std::string Write() const {
    const std::string path = ::testing::TempDir() + "tiny_load_test.gguf";
    EXPECT_TRUE(gguf_write_to_file(gguf_, path.c_str(), false));
    return path;
  }
  absl::StatusOr<std::unique_ptr<Model>> Load(
      KvType kv_type = KvType::kF16) const {
    Model::Options options;
    options.path = Write();
    options.kv_type = kv_type;
    return Model::Load(options);
  }

 private:
  gguf_context* const gguf_;
  ggml_context* context_;
};

void ExpectRefused(const TinyFile& file, absl::StatusCode code,
                   const std::string& named) {
  const absl::Status status = file.Load().status();
  EXPECT_EQ(status.code(), code) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr(named));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(ModelLoad, AcceptsACompleteFile) {
  TinyFile file;
  const auto model = file.Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->description().vocabulary, 40u);
  EXPECT_EQ((*model)->description().context_length, 128u);
  EXPECT_EQ((*model)->description().name, "tiny_load_test.gguf");
  EXPECT_EQ((*model)->description().file_type, "F32");
  const kvstore::KvLayout& layout = (*model)->layout();
  ASSERT_EQ(layout.groups.size(), 1u);
  EXPECT_EQ(layout.groups[0].block_bytes, 2u * 1 * 1 * 64 * 16 * 2);
  EXPECT_EQ(layout.numerics_mode, "strict");
}

TEST(ModelLoad, NamesTheArchitectureThatIsUnknown) {
  TinyFile file;
  file.SetText("general.architecture", "mamba");
  ExpectRefused(file, absl::StatusCode::kUnimplemented, "mamba");
}

TEST(ModelLoad, NamesTheKeyThatIsMissingOrWrong) {
  for (const char* key :
       {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon"}) {
    TinyFile file;
    file.Remove(key);
    ExpectRefused(file, absl::StatusCode::kInvalidArgument, key);
  }
  TinyFile zero;
  zero.Set("block_count", 0);
  ExpectRefused(zero, absl::StatusCode::kInvalidArgument, "block_count");
  TinyFile heads;
  heads.Set("attention.head_count_kv", 3);
  ExpectRefused(heads, absl::StatusCode::kInvalidArgument, "KV heads");
}

TEST(ModelLoad, RefusesWhatTheGraphDoesNotCompute) {
  TinyFile yarn;
  yarn.SetText("llama.rope.scaling.type", "yarn");
  ExpectRefused(yarn, absl::StatusCode::kUnimplemented, "yarn");
  TinyFile experts;
  experts.Set("expert_count", 8);
  ExpectRefused(experts, absl::StatusCode::kUnimplemented, "expert_count");
  TinyFile head;
  head.Set("attention.key_length", 24);
  head.Set("attention.value_length", 24);
  ExpectRefused(head, absl::StatusCode::kUnimplemented, "24");
  TinyFile extra;
  extra.Add("blk.0.mystery.weight", {32});
  ExpectRefused(extra, absl::StatusCode::kUnimplemented, "mystery");
}

TEST(ModelLoad, NamesTheTensorThatIsMissingOrWrong) {
  TinyFile deeper;
  deeper.Set("block_count", 2);
  ExpectRefused(deeper, absl::StatusCode::kInvalidArgument,
                "blk.1.attn_norm.weight");
  TinyFile wider;
  wider.Set("feed_forward_length", 96);
  ExpectRefused(wider, absl::StatusCode::kInvalidArgument, "blk.0.ffn_gate");
  TinyFile bias;
  bias.Add("blk.0.attn_q.bias", {32}, GGML_TYPE_F16);
  ExpectRefused(bias, absl::StatusCode::kUnimplemented, "attn_q.bias");
}

TEST(ModelLoad, RefusesAPoolOfOtherBlocks) {
  TinyFile file;
  const auto model = file.Load();
  ASSERT_TRUE(model.ok()) << model.status();
  BlockPool::Options options;
  options.block_bytes = 8192;
  options.blocks = 2;
  const auto pool = BlockPool::Create(options);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*model)->CreateForward(pool->get(), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A worker with f32 rows must not find the blocks of one with f16 rows, nor
// take a handoff from it.
TEST(ModelLoad, KvTypeIsPartOfTheLayout) {
  TinyFile file;
  const auto half = file.Load();
  const auto full = file.Load(KvType::kF32);
  ASSERT_TRUE(half.ok()) << half.status();
  ASSERT_TRUE(full.ok()) << full.status();
  const kvstore::KvLayout& f16 = (*half)->layout();
  const kvstore::KvLayout& f32 = (*full)->layout();
  EXPECT_EQ(f16.groups[0].dtype, "f16");
  EXPECT_EQ(f32.groups[0].dtype, "f32");
  EXPECT_EQ(f32.groups[0].block_bytes, 2 * f16.groups[0].block_bytes);
  EXPECT_NE(f32.Fingerprint(), f16.Fingerprint());
  const absl::Status compatible = kvstore::CheckCompatible(f16, f32);
  EXPECT_EQ(compatible.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(compatible.message()), HasSubstr("group attn"));
  // Nor may a pool of half-precision blocks serve it.
  BlockPool::Options options;
  options.block_bytes = f16.groups[0].block_bytes;
  options.blocks = 2;
  const auto pool = BlockPool::Create(options);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_TRUE((*half)->CreateForward(pool->get(), 1).ok());
  EXPECT_EQ((*full)->CreateForward(pool->get(), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ModelLoad, ReportsAMissingFile) {
  Model::Options options;
  options.path = "/nonexistent/model.gguf";
  EXPECT_EQ(Model::Load(options).status().code(), absl::StatusCode::kNotFound);
}

// One byte of a weight changes the digest and so every cache key.
TEST(ModelLoad, DigestAndFingerprintFollowTheContents) {
  TinyFile file;
  const auto before = file.Load();
  ASSERT_TRUE(before.ok());
  const auto before_key = (*before)->layout().Fingerprint();
  const std::string path = file.Write();
  std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(-40, std::ios::end);
  out.put('\1');
  out.close();
  Model::Options options;
  options.path = path;
  const auto after = Model::Load(options);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE((*after)->description().digest, (*before)->description().digest);
  EXPECT_NE((*after)->layout().Fingerprint(), before_key);
  EXPECT_EQ((*after)->description().header_digest,
            (*before)->description().header_digest);
}

TEST(ModelLoad, RemembersTheDigestOfAnUnchangedFile) {
  TinyFile file;
  Model::Options options;
  options.path = file.Write();
  options.digest_cache_directory = FreshDirectory("digests") + "/deeper";
  double last = 0;
  options.progress = [&](double done) { last = done; };
  const auto first = Model::Load(options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(last, 1.0);
  std::vector<std::filesystem::path> entries;
  for (const auto& entry :
       std::filesystem::directory_iterator(options.digest_cache_directory)) {
    entries.push_back(entry.path());
  }
  ASSERT_EQ(entries.size(), 1u);
  // A recorded digest is believed: the file is not read again.
  const std::string recorded(64, 'a');
  std::ofstream(entries[0]) << recorded << '\n';
  EXPECT_EQ((*Model::Load(options))->description().digest.Hex(), recorded);
  // Rubbish in the record is not.
  std::ofstream(entries[0]) << "not a digest\n";
  EXPECT_EQ((*Model::Load(options))->description().digest,
            (*first)->description().digest);
  // Another modification time is another file.
  std::ofstream(entries[0]) << recorded << '\n';
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, options.path.c_str(), times, 0), 0);
  EXPECT_EQ((*Model::Load(options))->description().digest,
            (*first)->description().digest);
}

TEST(DemoModel, IsDescribed) {
  Model::Options options;
  options.path = BATON_DEMO_MODEL;
  const auto model = Model::Load(options);
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelDescription& d = (*model)->description();
  EXPECT_EQ(d.architecture, "llama");
  EXPECT_EQ(d.context_length, 8192u);
  EXPECT_EQ(d.vocabulary, 49152u);
  EXPECT_THAT(d.end_tokens, ElementsAre(0, 2));
  EXPECT_EQ(d.parameters, 134515008u);
  EXPECT_EQ(d.file_type, "Q4_1");
  EXPECT_EQ(d.digest.Hex(),
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  EXPECT_EQ((*model)->header_bytes().size(), (*model)->header().header_bytes());
}

}  // namespace
}  // namespace baton::worker
