// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// Combines the sums of batch normalisation over a batch with those over the other parts of a larger
// batch, which other devices hold: see SyncBatchNorm in ddp/nn/parallel. All work is on the
// context's stream. A call may wait until all parts have made it, so all parts make the same calls
// in the same order, also with an empty batch.
class StatisticsReducer {
 public:
  virtual ~StatisticsReducer() = default;

  // The moments (ddp/kernels/channel_moments.h) of all parts together; every part gets the same
  // bits.
  [[nodiscard]] virtual Tensor merge_moments(Context& context, const Tensor& moments) = 0;
  // Sums float64 values over all parts, in place.
  virtual void sum(Context& context, const Tensor& sums) = 0;
};

}  // namespace ddp::nn
