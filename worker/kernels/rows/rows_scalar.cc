// The portable form, and the definition that the others follow.
#include <math.h>

#include "worker/kernels/lanes_scalar.h"
#include "worker/kernels/rows/row_forms.h"
#include "worker/kernels/rows/row_kernel.h"

namespace baton::worker {
namespace {

struct ScalarDoubles {
  double lane[kLanes];

  static ScalarDoubles Zero() { return {}; }
  void AddSquares(const ScalarLanes& x) {
    for (size_t i = 0; i < kLanes; ++i) {
      const double value = x.lane[i];
      lane[i] = fma(value, value, lane[i]);
    }
  }
  double Sum() const {
    ScalarDoubles s = *this;
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) s.lane[i] += s.lane[i + width];
    }
    return s.lane[0];
  }
};

}  // namespace

const RowForms kScalarRows = BATON_ROW_FORMS(ScalarLanes, ScalarDoubles);

}  // namespace baton::worker
