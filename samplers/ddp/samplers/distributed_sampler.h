// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/samplers/required.h"
#include "ddp/samplers/sampler.h"

namespace ddp {

struct DistributedSamplerOptions {
  Required<std::int64_t> dataset_size;
  // The group's values: with others, every rank would train on all samples. A single process passes
  // 1 and 0.
  Required<int> world_size;
  Required<int> rank;
  std::int64_t batch_size = 1;  // of one rank
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;
};

// Gives the same indices in the same order as torch.utils.data.DistributedSampler with the same
// options and epoch, cut into batches of batch_size. All ranks get the same number of samples. If
// world_size does not divide the dataset, the first samples of the order occur twice; with
// drop_last the last samples are left out instead. Where that is wrong (evaluation, exact
// averages), use ExactSampler.
//
// One difference: PyTorch repeats the order of an epoch if set_epoch() is forgotten; here
// next_epoch() advances by itself. Errors are std::invalid_argument.
class DistributedSampler final : public Sampler {
 public:
  explicit DistributedSampler(const DistributedSamplerOptions& options);

  [[nodiscard]] EpochPlan plan(const DataPosition& position) const override;

 private:
  DistributedSamplerOptions options_;
};

}  // namespace ddp
