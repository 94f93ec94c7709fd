// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "ddp/nn/module.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

struct BatchNormOptions {
  double eps = 1e-5;  // finite and 0 or above, else std::invalid_argument
  // Weight of a new batch in the running statistics; none: they are averages over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;               // has weight (initially ones) and bias (zeros)
  bool track_running_stats = true;  // false: uses the batch's statistics in evaluation, too
};

// torch.nn.BatchNorm1d and 2d, with their buffers running_mean, running_var (unbiased) and
// num_batches_tracked (int64). In training it normalises by the batch's statistics and updates the
// running ones; in evaluation it normalises by the running ones. An empty batch changes nothing.
//
// Each rank computes running statistics from its own samples. To make them equal, use
// DistributedDataParallel's buffer_sync or convert_sync_batchnorm().
class BatchNorm : public Module {
 public:
  // input: n x channels x further dimensions, as the class says. In training, a batch with one
  // element per channel is std::invalid_argument.
  Variable forward(Tape& tape, const Variable& input) override;

  // In later training passes a batch is a part of a larger one, whose statistics the reducer
  // computes; null: a batch is whole.
  void set_statistics_reducer(std::shared_ptr<StatisticsReducer> reducer);

 protected:
  struct Ranks {
    std::size_t least;
    std::size_t most;
  };
  BatchNorm(const Scope& scope, std::size_t channels, const BatchNormOptions& options,
            const Ranks& input_ranks);

 private:
  BatchNormOptions options_;
  Ranks input_ranks_;
  Parameter weight_;  // empty unless affine, like the bias
  Parameter bias_;
  Tensor running_mean_;
  Tensor running_var_;
  Tensor num_batches_tracked_;
  std::shared_ptr<StatisticsReducer> reducer_;
};

// For n x channels, or n x channels x length.
class BatchNorm1d final : public BatchNorm {
 public:
  BatchNorm1d(const Scope& scope, std::size_t channels, const BatchNormOptions& options = {})
      : BatchNorm(scope, channels, options, {.least = 2, .most = 3}) {}
};

// For n x channels x height x width.
class BatchNorm2d final : public BatchNorm {
 public:
  BatchNorm2d(const Scope& scope, std::size_t channels, const BatchNormOptions& options = {})
      : BatchNorm(scope, channels, options, {.least = 4, .most = 4}) {}
};

}  // namespace ddp::nn
