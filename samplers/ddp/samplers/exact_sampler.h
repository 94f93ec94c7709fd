// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/samplers/required.h"
#include "ddp/samplers/sampler.h"

namespace ddp {

struct ExactSamplerOptions {
  Required<std::int64_t> dataset_size;
  // The group's values: with others, every rank would train on all samples. A single process passes
  // 1 and 0.
  Required<int> world_size;
  Required<int> rank;
  std::int64_t global_batch_size = 1;  // of all ranks together
  bool shuffle = true;
  std::uint64_t seed = 0;
};

// Gives every sample exactly once in each epoch. Each global batch, also the smaller last one, is
// divided over the ranks as evenly as possible (8 over 3 is 3 + 3 + 2); nothing is padded or
// dropped. A step's global batch depends on the seed but not on the world size, so any number of
// ranks trains the same model if gradients are averaged over the global batch. With `shuffle` off
// it is the sampler for evaluation.
//
// The order is that of a DistributedSampler with the same seed. Errors are std::invalid_argument.
class ExactSampler final : public Sampler {
 public:
  explicit ExactSampler(const ExactSamplerOptions& options);

  [[nodiscard]] EpochPlan plan(const DataPosition& position) const override;

 private:
  ExactSamplerOptions options_;
};

}  // namespace ddp
