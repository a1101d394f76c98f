#include "worker/kernels/matmul/form_check.h"

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "worker/kernels/matmul/matmul.h"

namespace baton::worker {
namespace {

constexpr size_t kColumns = 3 * kLargeBlock;
constexpr size_t kOutputs = kTileOutputs + 5;
constexpr size_t kRows = 31;
// Each from the first row on: 31 = 16 + 8 + 4 + 2 + 1.
constexpr size_t kRowCounts[] = {1, 2, 3, 4, kRows};

struct FormatFacts {
  const char* name;
  size_t d;      // where a block has its scale
  size_t least;  // and its minimum; d again if it has none
};
constexpr FormatFacts kFacts[kWeightFormats] = {
    {"Q4_0", offsetof(BlockQ4_0, d), offsetof(BlockQ4_0, d)},
    {"Q4_1", offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)},
    {"Q5_0", offsetof(BlockQ5_0, d), offsetof(BlockQ5_0, d)},
    {"Q5_1", offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)},
    {"Q8_0", offsetof(BlockQ8_0, d), offsetof(BlockQ8_0, d)},
    {"IQ4_NL", offsetof(BlockIq4Nl, d), offsetof(BlockIq4Nl, d)},
    {"Q4_K", offsetof(BlockQ4K, d), offsetof(BlockQ4K, dmin)},
    {"Q5_K", offsetof(BlockQ5K, d), offsetof(BlockQ5K, dmin)},
    {"Q6_K", offsetof(BlockQ6K, d), offsetof(BlockQ6K, d)},
    {"IQ4_XS", offsetof(BlockIq4Xs, d), offsetof(BlockIq4Xs, d)},
    {"F32", 2, 2},  // the half that has the exponent
    {"F16", 0, 0},
    {"BF16", 0, 0},
};

using Random = std::minstd_rand;

// A third of the weight rows has the largest quants, a third the smallest.
std::vector<uint8_t> Weights(WeightFormat format, Random* random) {
  const size_t block_bytes = BlockBytes(format);
  const size_t row_bytes = kColumns / BlockValues(format) * block_bytes;
  std::vector<uint8_t> weights(kOutputs * row_bytes);
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t kind = i / row_bytes % 3;
    weights[i] = kind == 0   ? static_cast<uint8_t>((*random)() >> 8)
                 : kind == 1 ? 0xff
                             : 0x80;
  }
  for (size_t at = 0; at < weights.size(); at += block_bytes) {
    for (const size_t half : {kFacts[format].d, kFacts[format].least}) {
      // A number of magnitude 2^-7 to 2^-6, either sign.
      const uint16_t bits =
          0x2000 | static_cast<uint16_t>((*random)() >> 8 & 0x83ff);
      std::memcpy(&weights[at + half], &bits, sizeof(bits));
    }
  }
  return weights;
}

// Every other row has one magnitude only: it rounds to +-127.
std::vector<float> Rows(Random* random) {
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    const float value =
        static_cast<float>((*random)() % 20001) / 5000.0f - 2.0f;
    x[i] = i / kColumns % 2 == 0 ? value : value < 0 ? -1.0f : 1.0f;
  }
  return x;
}

std::vector<uint8_t> Quantised(const MatMulForms& forms,
                               ActivationFormat format,
                               const std::vector<float>& x) {
  std::vector<uint8_t> rows(kRows * ActivationRowBytes(format, kColumns));
  if (format == ActivationFormat::kFloats) {
    std::memcpy(rows.data(), x.data(), rows.size());
    return rows;
  }
  QuantiseRows(forms, format, x.data(), kColumns, kColumns, kRows, rows.data(),
               0, 1);
  return rows;
}

std::vector<float> Product(const MatMulForms& forms, WeightFormat format,
                           const std::vector<uint8_t>& weights,
                           const std::vector<uint8_t>& activations,
                           size_t rows) {
  std::vector<float> out(rows * kOutputs);
  const WeightMatrix matrix{format, weights.data(), weights.size() / kOutputs,
                            kColumns, kOutputs};
  Multiply(forms, matrix, activations.data(),
           ActivationRowBytes(ActivationOf(format), kColumns), rows, out.data(),
           kOutputs, 0, 1);
  return out;
}

}  // namespace

std::string Difference(const MatMulForms& forms) {
  Random random(7);
  const std::vector<float> x = Rows(&random);
  for (size_t i = 0; i < kWeightFormats; ++i) {
    const WeightFormat format = static_cast<WeightFormat>(i);
    const std::vector<uint8_t> activations =
        Quantised(kScalarMatMul, ActivationOf(format), x);
    if (Quantised(forms, ActivationOf(format), x) != activations) {
      return std::string(kFacts[i].name) + ", activations";
    }
    const std::vector<uint8_t> weights = Weights(format, &random);
    const std::vector<float> expected =
        Product(kScalarMatMul, format, weights, activations, kRows);
    for (const size_t rows : kRowCounts) {
      const std::vector<float> out =
          Product(forms, format, weights, activations, rows);
      if (std::memcmp(out.data(), expected.data(),
                      out.size() * sizeof(float)) != 0) {
        return std::string(kFacts[i].name) + ", " + std::to_string(rows) +
               " rows";
      }
    }
  }
  return "";
}

const MatMulForms& FirstCorrectForms(
    std::span<const MatMulForms* const> candidates, const RejectForm& reject) {
  for (const MatMulForms* forms : candidates) {
    if (forms == &kScalarMatMul) break;
    const std::string difference = Difference(*forms);
    if (difference.empty()) return *forms;
    reject(*forms, difference);
  }
  return kScalarMatMul;
}

const MatMulForms& CheckedMatMulFormsOf(KernelForm form,
                                        const RejectForm& reject) {
  std::vector<const MatMulForms*> candidates;
  for (int lower = static_cast<int>(form); lower >= 0; --lower) {
    const MatMulForms* forms = &MatMulFormsOf(static_cast<KernelForm>(lower));
    // Two instruction sets may share a form.
    if (candidates.empty() || candidates.back() != forms) {
      candidates.push_back(forms);
    }
  }
  return FirstCorrectForms(candidates, reject);
}

}  // namespace baton::worker
