// SPDX-License-Identifier: MIT
//
// What the samplers of this folder share; not for programs. `Options` has dataset_size, world_size,
// rank, shuffle and seed. Violations are std::invalid_argument with the values.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/samplers/epoch_plan.h"
#include "ddp/samplers/randperm.h"

namespace ddp::sampler_internal {

inline void require(bool condition, const std::string& complaint) {
  if (!condition) throw std::invalid_argument(complaint);
}

template <class Options>
void check_options(const std::string& origin, const Options& options) {
  require(options.dataset_size >= 0,
          origin + " dataset_size is " + std::to_string(options.dataset_size) + ", below 0");
  require(options.world_size >= 1,
          origin + " world_size is " + std::to_string(options.world_size) + ", below 1");
  require(options.rank >= 0 && options.rank < options.world_size,
          origin + " rank " + std::to_string(options.rank) + " is not in [0, " +
              std::to_string(options.world_size - 1) + "]");
}

// The upper bound keeps batch_size * world_size within 64 bits.
inline void check_batch_size(const std::string& origin, const std::string& name,
                             std::int64_t batch_size) {
  require(batch_size >= 1 && batch_size <= std::numeric_limits<std::int32_t>::max(),
          origin + " " + name + " is " + std::to_string(batch_size) + ", not in [1, 2^31 - 1]");
}

template <class Options>
void check_position(const std::string& origin, const Options& options,
                    const DataPosition& position) {
  const bool inside =
      position.epoch >= 0 && position.consumed >= 0 && position.consumed <= options.dataset_size;
  require(inside, origin + " epoch " + std::to_string(position.epoch) + ", sample " +
                      std::to_string(position.consumed) + " is not a position in a dataset of " +
                      std::to_string(options.dataset_size) + " samples");
}

// The order of an epoch, the same on every rank and for every world size. As in PyTorch, the
// generator is seeded with seed + epoch.
template <class Options>
std::vector<std::int64_t> order_of_epoch(const Options& options, std::int64_t epoch) {
  if (options.shuffle) {
    return randperm(options.dataset_size, options.seed + static_cast<std::uint64_t>(epoch));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(options.dataset_size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

}  // namespace ddp::sampler_internal
