// SPDX-License-Identifier: MIT
#include "ddp/samplers/exact_sampler.h"

#include "ddp/samplers/sampler_checks.h"

namespace ddp {
namespace {

constexpr const char* kExactSampler = "[exact_sampler]";

}  // namespace

ExactSampler::ExactSampler(const ExactSamplerOptions& options) : options_(options) {
  sampler_internal::check_options(kExactSampler, options);
  sampler_internal::check_batch_size(kExactSampler, "global_batch_size", options.global_batch_size);
}

EpochPlan ExactSampler::plan(const DataPosition& position) const {
  sampler_internal::check_position(kExactSampler, options_, position);
  const EpochPlan::Layout layout{.epoch = position.epoch,
                                 .first = position.consumed,
                                 .count = options_.dataset_size - position.consumed,
                                 .global_batch_size = options_.global_batch_size,
                                 .world_size = options_.world_size,
                                 .rank = options_.rank};
  return {layout, sampler_internal::order_of_epoch(options_, position.epoch)};
}

}  // namespace ddp
