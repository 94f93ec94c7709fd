// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// Joins what batch normalisation sums over its batch with the sums over the other parts of a larger
// one, which other devices hold: see SyncBatchNorm in ddp/nn/parallel. Everything happens on the
// context's stream. A call may wait until all parts have made it, so all make the same calls in the
// same order, those with an empty part, too.
class StatisticsReducer {
 public:
  virtual ~StatisticsReducer() = default;

  // The moments (ddp/kernels/channel_moments.h) of all parts together, to the same bits for each.
  [[nodiscard]] virtual Tensor merge_moments(Context& context, const Tensor& moments) = 0;
  // Adds up float64 sums in place.
  virtual void sum(Context& context, const Tensor& sums) = 0;
};

}  // namespace ddp::nn
