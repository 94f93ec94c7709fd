// SPDX-License-Identifier: MIT
#include "ddp/samplers/distributed_sampler.h"

#include <string>

#include "ddp/samplers/sampler_checks.h"

namespace ddp {
namespace {

constexpr const char* kDistributedSampler = "[distributed_sampler]";

}  // namespace

DistributedSampler::DistributedSampler(const DistributedSamplerOptions& options)
    : options_(options) {
  sampler_internal::check_options(kDistributedSampler, options);
  sampler_internal::check_batch_size(kDistributedSampler, "batch_size", options.batch_size);
}

EpochPlan DistributedSampler::plan(const DataPosition& position) const {
  sampler_internal::check_position(kDistributedSampler, options_, position);
  const std::int64_t rest = options_.dataset_size - position.consumed;
  const bool pads = !options_.drop_last && rest % options_.world_size != 0;
  const std::int64_t samples_per_rank = rest / options_.world_size + (pads ? 1 : 0);
  const EpochPlan::Layout layout{.epoch = position.epoch,
                                 .first = position.consumed,
                                 .count = samples_per_rank * options_.world_size,
                                 .global_batch_size = options_.batch_size * options_.world_size,
                                 .world_size = options_.world_size,
                                 .rank = options_.rank};
  return {layout, sampler_internal::order_of_epoch(options_, position.epoch)};
}

}  // namespace ddp
