// SPDX-License-Identifier: MIT
#include "ddp/nn/ops.h"

namespace ddp::nn {

Variable flatten(Tape& /*tape*/, const Variable& x) {
  const auto [rows, columns] = as_matrix(x.shape());
  return x.reshaped({rows, columns});
}

}  // namespace ddp::nn
