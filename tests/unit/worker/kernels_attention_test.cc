#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/paged_attention.h"
#include "worker/kernels/half.h"

namespace baton::worker {
namespace {

// Every form that this processor can run; the last is the one in use.
std::vector<KernelForm> Forms() {
  std::vector<KernelForm> forms;
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    forms.push_back(static_cast<KernelForm>(form));
  }
  return forms;
}

std::vector<float> Random(size_t count, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A cache of one layer pair and the rows of a few sequences in it.
class Bench {
 public:
  Bench(uint32_t heads, uint32_t kv_heads, uint32_t head_dim,
        KvType type = KvType::kF16) {
    shape_.layers = 2;
    shape_.heads = heads;
    shape_.kv_heads = kv_heads;
    shape_.head_dim = head_dim;
    shape_.type = type;
    shape_.block_bytes = shape_.ContentBytes();
    // Not-a-number wherever nothing is written: it must never be read.
    arena_.assign(shape_.block_bytes * kBlocks, std::byte{0xff});
    shape_.arena = arena_.data();
  }

  // Blocks from the far end, so that no table is in the arena's order.
  std::vector<uint32_t> TakeBlocks(uint32_t positions) {
    std::vector<uint32_t> table;
    for (uint32_t i = 0; i * kBlockTokens < positions; ++i) {
      table.push_back(--next_block_);
    }
    return table;
  }

  // Writes and attends all rows of `runs` in layer 1, with `threads` real
  // threads; q, k, v as for PagedAttention.
  std::vector<float> Run(KernelForm form, std::span<const RowRun> runs,
                         uint32_t rows, const float* q, const float* k,
                         const float* v, int threads) {
    PagedAttention attention(shape_, threads, form);
    attention.SetStep(runs);
    std::vector<float> out(rows * QStride());
    const auto all = [&](auto function) {
      std::vector<std::thread> running;
      for (int t = 0; t < threads; ++t) running.emplace_back(function, t);
      for (std::thread& thread : running) thread.join();
    };
    all([&](int t) {
      attention.Write(1, k, KvStride(), v, KvStride(), t, threads);
    });
    all([&](int t) {
      attention.Attend(1, q, QStride(), out.data(), QStride(), t, threads);
    });
    return out;
  }

  const CacheShape& shape() const { return shape_; }
  size_t QStride() const { return shape_.heads * shape_.head_dim; }
  size_t KvStride() const { return shape_.kv_heads * shape_.head_dim; }

 private:
  static constexpr uint32_t kBlocks = 48;
  CacheShape shape_;
  std::vector<std::byte> arena_;
  uint32_t next_block_ = kBlocks;
};

struct Case {
  uint32_t heads, kv_heads, head_dim;
  KvType type = KvType::kF16;
};

class PagedAttentionTest : public ::testing::TestWithParam<Case> {};

// Lengths at and around the edges of blocks and tiles.
TEST_P(PagedAttentionTest, FormsAgreeInEveryBitAndWithTheReference) {
  const auto [heads, kv_heads, head_dim, type] = GetParam();
  for (const uint32_t rows : {1u, 2u, 15u, 63u, 64u, 65u, 130u, 193u}) {
    Bench bench(heads, kv_heads, head_dim, type);
    const std::vector<uint32_t> table = bench.TakeBlocks(rows);
    const RowRun run{0, rows, 0, table};
    const auto q = Random(rows * bench.QStride(), 1, 2.0f);
    const auto k = Random(rows * bench.KvStride(), 2);
    const auto v = Random(rows * bench.KvStride(), 3);
    const auto scalar = bench.Run(KernelForm::kScalar, {&run, 1}, rows,
                                  q.data(), k.data(), v.data(), 1);
    for (const KernelForm form : Forms()) {
      const auto out =
          bench.Run(form, {&run, 1}, rows, q.data(), k.data(), v.data(), 1);
      EXPECT_TRUE(SameBits(out, scalar))
          << KernelFormName(form) << ", " << rows << " rows";
    }
    std::vector<double> reference(bench.QStride());
    for (const uint32_t row : {0u, rows / 2, rows - 1}) {
      ReferenceAttention(bench.shape(), 1, table, row,
                         q.data() + row * bench.QStride(), reference.data());
      for (size_t i = 0; i < reference.size(); ++i) {
        // Values are of order 1; single precision over 193 positions.
        ASSERT_NEAR(scalar[row * bench.QStride() + i], reference[i], 3e-6)
            << "row " << row << " of " << rows << ", element " << i;
      }
    }
  }
}

// All at once, against one row at a time: chunks, threads and neighbours leave
// no trace.
TEST_P(PagedAttentionTest, ChunksThreadsAndNeighboursChangeNoBit) {
  const auto [heads, kv_heads, head_dim, type] = GetParam();
  constexpr uint32_t kRows = 150;
  const KernelForm form = BestKernelForm();
  Bench whole(heads, kv_heads, head_dim, type);
  const auto q = Random(kRows * whole.QStride(), 4, 2.0f);
  const auto k = Random(kRows * whole.KvStride(), 5);
  const auto v = Random(kRows * whole.KvStride(), 6);
  std::vector<float> expected;
  {
    Bench single(heads, kv_heads, head_dim, type);
    const std::vector<uint32_t> table = single.TakeBlocks(kRows);
    for (uint32_t i = 0; i < kRows; ++i) {
      const RowRun run{0, 1, i, table};
      const auto row =
          single.Run(form, {&run, 1}, 1, q.data() + i * single.QStride(),
                     k.data() + i * single.KvStride(),
                     v.data() + i * single.KvStride(), 1);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  for (const int threads : {1, 2, 3, 7}) {
    Bench bench(heads, kv_heads, head_dim, type);
    const std::vector<uint32_t> table = bench.TakeBlocks(kRows);
    const RowRun run{0, kRows, 0, table};
    EXPECT_TRUE(SameBits(bench.Run(form, {&run, 1}, kRows, q.data(), k.data(),
                                   v.data(), threads),
                         expected))
        << threads << " threads";
  }
  // Two sequences of the same rows in uneven chunks, side by side.
  Bench bench(heads, kv_heads, head_dim, type);
  const std::vector<uint32_t> first = bench.TakeBlocks(kRows);
  const std::vector<uint32_t> second = bench.TakeBlocks(kRows);
  const auto rows_of = [&](const std::vector<float>& all, size_t stride,
                           uint32_t a, uint32_t b, uint32_t c) {
    std::vector<float> some(all.begin() + a * stride, all.begin() + b * stride);
    some.insert(some.end(), all.begin(), all.begin() + c * stride);
    return some;
  };
  uint32_t done = 0;
  for (const uint32_t chunk : {1u, 62u, 3u, 84u}) {
    // The second sequence starts over, one row longer each time.
    const uint32_t other = 20 + chunk % 7;
    const RowRun runs[] = {{0, chunk, done, first}, {chunk, other, 0, second}};
    const auto out = bench.Run(
        form, runs, chunk + other,
        rows_of(q, bench.QStride(), done, done + chunk, other).data(),
        rows_of(k, bench.KvStride(), done, done + chunk, other).data(),
        rows_of(v, bench.KvStride(), done, done + chunk, other).data(), 2);
    EXPECT_TRUE(SameBits(
        out, rows_of(expected, bench.QStride(), done, done + chunk, other)));
    done += chunk;
  }
  EXPECT_EQ(done, kRows);
}

std::string Name(const ::testing::TestParamInfo<Case>& info) {
  return "Heads" + std::to_string(info.param.heads) + "Kv" +
         std::to_string(info.param.kv_heads) + "Dim" +
         std::to_string(info.param.head_dim) + KvTypeName(info.param.type);
}
constexpr Case kShapes[] = {{2, 2, 64},
                            {4, 2, 32},
                            {9, 3, 64},
                            {4, 1, 80},
                            {8, 1, 128},
                            {6, 2, 96},
                            {2, 1, 256},
                            {3, 3, 16},
                            {4, 2, 64, KvType::kF32},
                            {9, 3, 64, KvType::kF32},
                            {4, 1, 80, KvType::kF32},
                            {2, 1, 256, KvType::kF32}};
INSTANTIATE_TEST_SUITE_P(Shapes, PagedAttentionTest,
                         ::testing::ValuesIn(kShapes), Name);
// More heads of a group than a tile holds.
INSTANTIATE_TEST_SUITE_P(WideGroups, PagedAttentionTest,
                         ::testing::Values(Case{49, 1, 48},
                                           Case{49, 1, 48, KvType::kF32}),
                         Name);

// Shapes small enough for thousands of positions under a sanitizer.
class LongAttentionTest : public PagedAttentionTest {};

// Far into a sequence: the last rows alone, whose segments threads share out,
// against the same rows among all; next to another sequence; in every form.
TEST_P(LongAttentionTest, SegmentsAreMergedAlikeHoweverTheyAreShared) {
  const auto [heads, kv_heads, head_dim, type] = GetParam();
  constexpr uint32_t kRows = 2 * kSegmentTokens + 70, kOther = 30;
  Bench bench(heads, kv_heads, head_dim, type);
  const std::vector<uint32_t> table = bench.TakeBlocks(kRows);
  const std::vector<uint32_t> other = bench.TakeBlocks(kOther);
  const auto q = Random(kRows * bench.QStride(), 21, 2.0f);
  const auto k = Random(kRows * bench.KvStride(), 22);
  const auto v = Random(kRows * bench.KvStride(), 23);
  const RowRun all{0, kRows, 0, table};
  const auto whole = bench.Run(BestKernelForm(), {&all, 1}, kRows, q.data(),
                               k.data(), v.data(), 1);
  const auto last = [](const std::vector<float>& values, size_t stride,
                       uint32_t rows, uint32_t others) {
    std::vector<float> some(values.end() - rows * stride, values.end());
    some.insert(some.end(), values.begin(), values.begin() + others * stride);
    return some;
  };
  for (const uint32_t rows : {1u, 8u, 9u}) {
    const RowRun runs[] = {{0, rows, kRows - rows, table},
                           {rows, kOther, 0, other}};
    for (const KernelForm form : Forms()) {
      for (const int threads : {1, 2, 16}) {
        // It is slow, and has no way of its own to share or merge.
        if (form == KernelForm::kScalar && (rows > 3 || threads > 2)) continue;
        EXPECT_TRUE(SameBits(
            bench.Run(form, runs, rows + kOther,
                      last(q, bench.QStride(), rows, kOther).data(),
                      last(k, bench.KvStride(), rows, kOther).data(),
                      last(v, bench.KvStride(), rows, kOther).data(), threads),
            last(whole, bench.QStride(), rows, kOther)))
            << KernelFormName(form) << ", " << rows << " rows, " << threads
            << " threads";
      }
    }
  }
  std::vector<double> reference(bench.QStride());
  for (const uint32_t row : {kSegmentTokens - 1, kSegmentTokens, kRows - 1}) {
    ReferenceAttention(bench.shape(), 1, table, row,
                       q.data() + row * bench.QStride(), reference.data());
    for (size_t i = 0; i < reference.size(); ++i) {
      ASSERT_NEAR(whole[row * bench.QStride() + i], reference[i], 3e-6)
          << "row " << row << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LongAttentionTest,
                         ::testing::ValuesIn(kShapes), Name);

// Two layers after one another: what one leaves behind does not reach the next.
TEST(PagedAttention, SplitTilesStartAnewInEveryLayer) {
  constexpr uint32_t kRows = kSegmentTokens + 200;
  Bench bench(4, 2, 32);
  const std::vector<uint32_t> table = bench.TakeBlocks(kRows);
  const auto q = Random(kRows * bench.QStride(), 31, 2.0f);
  const auto k = Random(kRows * bench.KvStride(), 32);
  const auto v = Random(kRows * bench.KvStride(), 33);
  const RowRun all{0, kRows, 0, table};
  const auto whole = bench.Run(BestKernelForm(), {&all, 1}, kRows, q.data(),
                               k.data(), v.data(), 1);
  PagedAttention attention(bench.shape(), 2, BestKernelForm());
  const RowRun last{0, 1, kRows - 1, table};
  const std::vector<float> expected(whole.end() - bench.QStride(), whole.end());
  for (int step = 0; step < 2; ++step) {
    attention.SetStep({&last, 1});
    for (int layer = 0; layer < 3; ++layer) {
      std::vector<float> out(bench.QStride());
      for (const int thread : {1, 0}) {
        attention.Attend(1, q.data() + (kRows - 1) * bench.QStride(),
                         bench.QStride(), out.data(), bench.QStride(), thread,
                         2);
      }
      EXPECT_TRUE(SameBits(out, expected)) << "layer " << layer;
    }
  }
}

// Rows that half precision holds exactly must leave no trace of the type;
// rows that it does not must.
TEST(PagedAttention, TypesDifferOnlyInWhatTheyStore) {
  constexpr uint32_t kRows = 100;
  const auto run = [&](KvType type, const std::vector<float>& q,
                       const std::vector<float>& k,
                       const std::vector<float>& v) {
    Bench bench(4, 2, 32, type);
    const std::vector<uint32_t> table = bench.TakeBlocks(kRows);
    const RowRun rows{0, kRows, 0, table};
    return bench.Run(BestKernelForm(), {&rows, 1}, kRows, q.data(), k.data(),
                     v.data(), 2);
  };
  const auto q = Random(kRows * 4 * 32, 12);
  auto k = Random(kRows * 2 * 32, 13), v = Random(kRows * 2 * 32, 14);
  EXPECT_FALSE(
      SameBits(run(KvType::kF16, q, k, v), run(KvType::kF32, q, k, v)));
  for (float& x : k) x = HalfToFloat(FloatToHalf(x));
  for (float& x : v) x = HalfToFloat(FloatToHalf(x));
  EXPECT_TRUE(SameBits(run(KvType::kF16, q, k, v), run(KvType::kF32, q, k, v)));
}

// Scores far apart: the maximum moves between blocks, and weights vanish.
TEST(PagedAttention, LargeScoresStayFiniteAndExact) {
  Bench bench(2, 1, 64);
  constexpr uint32_t kRows = 140;
  const std::vector<uint32_t> table = bench.TakeBlocks(kRows);
  const RowRun run{0, kRows, 0, table};
  const auto q = Random(kRows * bench.QStride(), 7, 40.0f);
  const auto k = Random(kRows * bench.KvStride(), 8, 20.0f);
  const auto v = Random(kRows * bench.KvStride(), 9);
  const auto scalar = bench.Run(KernelForm::kScalar, {&run, 1}, kRows, q.data(),
                                k.data(), v.data(), 1);
  for (const KernelForm form : Forms()) {
    EXPECT_TRUE(SameBits(
        bench.Run(form, {&run, 1}, kRows, q.data(), k.data(), v.data(), 1),
        scalar));
  }
  std::vector<double> reference(bench.QStride());
  ReferenceAttention(bench.shape(), 1, table, kRows - 1,
                     q.data() + (kRows - 1) * bench.QStride(),
                     reference.data());
  for (size_t i = 0; i < reference.size(); ++i) {
    // Scores of order 10^4 carry an error of about 10^-3.
    EXPECT_NEAR(scalar[(kRows - 1) * bench.QStride() + i], reference[i], 1e-2);
  }
}

TEST(Half, RoundTripsEveryHalf) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToHalf(value), half);
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00);             // tie, even
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);         // tie, odd
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);    // tie to zero
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);  // above the tie
  EXPECT_EQ(FloatToHalf(-0x1p-24f), 0x8001);
}

// exp through the softmax of two keys: 1 and exp(-x).
TEST(Softmax, ExponentialIsAccurate) {
  for (float x = 0; x < 87; x += 0.0137f) {
    alignas(64) float scores[64] = {0, -x};
    float maximum = -INFINITY, sum = 0;
    kScalarAttention.soften(scores, 2, &maximum, &sum);
    const double exact = std::exp(-static_cast<double>(x));
    ASSERT_NEAR(scores[1] / exact, 1.0, 3e-7) << x;
    ASSERT_EQ(scores[0], 1.0f);
    ASSERT_EQ(scores[2], 0.0f);
  }
}

}  // namespace
}  // namespace baton::worker
