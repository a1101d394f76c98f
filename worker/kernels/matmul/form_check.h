// The forms' law, checked once more on the processor at hand: a form that does
// not give the scalar form's bits there (an erratum, an emulator, a compiler's
// fault) must not compute a token.
#ifndef BATON_WORKER_KERNELS_MATMUL_FORM_CHECK_H_
#define BATON_WORKER_KERNELS_MATMUL_FORM_CHECK_H_

#include <functional>
#include <span>
#include <string>

#include "worker/kernels/kernel_form.h"
#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {

// What `forms` computes otherwise than kScalarMatMul, e.g. "Q4_K, 3 rows";
// empty if nothing. Rounds seeded activations and multiplies seeded weights of
// every format, extreme ones among them, with whole and partial tiles and each
// way that rows are grouped. Takes some milliseconds.
std::string Difference(const MatMulForms& forms);

// Called with a form that was passed over, and its Difference.
using RejectForm = std::function<void(const MatMulForms& forms,
                                      const std::string& difference)>;

// The first of `candidates` without a Difference; kScalarMatMul if none is.
const MatMulForms& FirstCorrectForms(
    std::span<const MatMulForms* const> candidates, const RejectForm& reject);

// MatMulFormsOf(form), or the next lower one that is correct here.
const MatMulForms& CheckedMatMulFormsOf(KernelForm form,
                                        const RejectForm& reject);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_FORM_CHECK_H_
