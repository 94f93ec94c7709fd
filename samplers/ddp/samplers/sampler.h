// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/samplers/epoch_plan.h"

namespace ddp {

// Decides which rank trains on which sample in which step. The ranks never talk about it: equal
// options, rank apart, give plans that fit together. Not thread-safe; its plans are.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // The rest of an epoch from `position` on. Depends on the options and the position only, and
  // throws std::invalid_argument if the position is not in the data.
  [[nodiscard]] virtual EpochPlan plan(const DataPosition& position) const = 0;

  // The next epoch's plan: epoch 0 at first, then one further with each call, so that every epoch
  // has an order of its own even if nobody calls set_epoch().
  [[nodiscard]] EpochPlan next_epoch();

  // Makes `epoch` the one that next_epoch() gives next; from there it counts on. In PyTorch's habit
  // of calling it before every epoch it changes nothing; to repeat an epoch, set its number again.
  void set_epoch(std::int64_t epoch) { seek({.epoch = epoch, .consumed = 0}); }

  // As set_epoch, but next_epoch() leaves out what was consumed before: goes on from a checkpoint,
  // also one of another world size.
  void seek(const DataPosition& position);

 private:
  DataPosition next_;
};

}  // namespace ddp
