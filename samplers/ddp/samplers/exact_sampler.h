// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/samplers/required.h"
#include "ddp/samplers/sampler.h"

namespace ddp {

struct ExactSamplerOptions {
  std::int64_t dataset_size = 0;
  // The group's: with others every rank would train on all samples. A single process has 1 and 0.
  Required<int> world_size;
  Required<int> rank;
  std::int64_t global_batch_size = 1;  // of all ranks together
  bool shuffle = true;
  std::uint64_t seed = 0;
};

// Deals out every sample exactly once an epoch. Each global batch is cut over the ranks as evenly
// as it goes (8 over 3 is 3 + 3 + 2), the smaller last one too; nothing is padded, nothing dropped.
// A step's global batch depends on the seed, not on the world size, so that with gradients averaged
// over the global count any number of ranks trains the same model. With `shuffle` off it is the
// sampler for evaluation.
//
// The order is that of a DistributedSampler with the same seed. The errors are
// std::invalid_argument.
class ExactSampler final : public Sampler {
 public:
  explicit ExactSampler(const ExactSamplerOptions& options);

  [[nodiscard]] EpochPlan plan(const DataPosition& position) const override;

 private:
  ExactSamplerOptions options_;
};

}  // namespace ddp
