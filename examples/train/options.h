// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpointing.h"
#include "ddp/base/dtype.h"
#include "ddp/collectives/init.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/kernels/gemm.h"
#include "ddp/nn/optim/lr_schedule.h"
#include "optimizers.h"
#include "step_trace.h"
#include "task.h"

namespace train {

enum class SamplerKind { kExact, kTorch };

struct Options {
  std::string model;
  DatasetChoice dataset;
  int epochs = 1;
  std::int64_t max_steps = 0;                     // 0: no limit
  int accumulate = 1;                             // passes that make a step
  std::optional<std::int64_t> batch_size;         // of a rank in a pass
  std::optional<std::int64_t> global_batch_size;  // of all ranks in all passes of a step
  OptimizerOptions optimizer;
  std::filesystem::path init;    // the weights to begin with; empty: drawn from the seed
  bool is_init_partial = false;  // the file's tensors may be others than the model's
  double max_grad_norm = 0;      // 0: gradients are not clipped
  double label_smoothing = 0;
  bool sync_batch_norm = false;
  ddp::nn::LrScheduleKind lr_schedule = ddp::nn::LrScheduleKind::kConstant;
  std::optional<int>
      plateau_patience;  // of --lr-schedule plateau, in whose place lr_schedule is constant
  int warmup_epochs = 0;
  std::int64_t warmup_steps = 0;  // alternatively, the warm-up in steps
  ddp::DType dtype = ddp::DType::kFloat32;
  ddp::Float32Precision float32_precision = ddp::Float32Precision::kIeee;
  std::optional<ddp::DType> amp;  // a 16-bit type for mixed precision
  std::optional<ddp::NonFinite> non_finite;
  std::optional<ddp::DType> compress;  // a 16-bit type in which gradients travel
  SamplerKind sampler = SamplerKind::kExact;
  bool drop_last = false;
  std::uint64_t seed = 0;
  int num_workers = 1;  // threads of a rank that gather batches
  ddp::DeviceChoice device = ddp::DeviceChoice::kAuto;
  ddp::Backend backend = ddp::Backend::kAuto;
  double bucket_cap_mb = 25;
  std::int64_t log_every = 100;
  std::filesystem::path metrics;  // empty: none
  std::filesystem::path log_dir;  // empty: no TensorBoard
  TraceFiles traces;
  std::filesystem::path save;  // empty: nowhere
  CheckpointOptions checkpoints;

  // The samples of one pass on all ranks together.
  [[nodiscard]] std::int64_t pass_batch(int world_size) const;
  // The samples of one step, which may consist of several passes.
  [[nodiscard]] std::int64_t global_batch(int world_size) const {
    return pass_batch(world_size) * accumulate;
  }
  // "2 ranks, global batch 128 = 2 ranks x 16 x 4 passes".
  [[nodiscard]] std::string ranks_and_batch(int world_size) const;
  // The engine's policy for gradients that are not finite.
  [[nodiscard]] ddp::NonFinite non_finite_gradients() const;
  // Whether a loss that is not finite ends the run.
  [[nodiscard]] bool stops_at_bad_loss() const;
  // The rate of step `step` of the training, in `epoch`, both from 0, with `base` as the highest
  // rate. A warm-up by steps reaches the epoch's rate in its last step.
  [[nodiscard]] double learning_rate(double base, int epoch, std::int64_t step) const;
  // Describes the training, for its checkpoints and for the comparison of all ranks.
  [[nodiscard]] JobDescription describe(int world_size, const Task& task) const;
};

}  // namespace train
