// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/samplers/required.h"
#include "ddp/samplers/sampler.h"

namespace ddp {

struct DistributedSamplerOptions {
  std::int64_t dataset_size = 0;
  // The group's: with others every rank would train on all samples. A single process has 1 and 0.
  Required<int> world_size;
  Required<int> rank;
  std::int64_t batch_size = 1;  // of one rank
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;
};

// torch.utils.data.DistributedSampler: the same indices in the same order for the same options and
// epoch, here cut into batches of batch_size. All ranks get equally many samples; if world_size
// does not divide the dataset, the first samples of the order are dealt out twice, or with
// drop_last the last ones not at all. Where that is wrong (evaluation, exact averages) ExactSampler
// is right.
//
// One difference: PyTorch repeats an epoch's order when set_epoch() is forgotten, next_epoch()
// moves on by itself. The errors are std::invalid_argument.
class DistributedSampler final : public Sampler {
 public:
  explicit DistributedSampler(const DistributedSamplerOptions& options);

  [[nodiscard]] EpochPlan plan(const DataPosition& position) const override;

 private:
  DistributedSamplerOptions options_;
};

}  // namespace ddp
