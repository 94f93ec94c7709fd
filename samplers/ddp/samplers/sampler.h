// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/samplers/epoch_plan.h"

namespace ddp {

// Decides which rank trains on which sample in which step. Ranks do not communicate: samplers whose
// options differ only in the rank give plans that fit together. Not thread-safe; its plans are.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // The rest of an epoch from `position` on. Depends only on the options and the position. Throws
  // std::invalid_argument if the position is outside the data.
  [[nodiscard]] virtual EpochPlan plan(const DataPosition& position) const = 0;

  // The plan of the next epoch: epoch 0 at first, one further with each call. So every epoch has
  // its own order even if the program never calls set_epoch().
  [[nodiscard]] EpochPlan next_epoch();

  // Makes `epoch` the epoch that next_epoch() returns next; later calls count on from it. A program
  // that calls it before every epoch, as in PyTorch, gets the same epochs as without it. To repeat
  // an epoch, set its number again.
  void set_epoch(std::int64_t epoch) { seek({.epoch = epoch, .consumed = 0}); }

  // Like set_epoch, but next_epoch() leaves out the samples that were consumed before. Resumes from
  // a checkpoint, also from one of a job with another world size.
  void seek(const DataPosition& position);

 private:
  DataPosition next_;
};

}  // namespace ddp
