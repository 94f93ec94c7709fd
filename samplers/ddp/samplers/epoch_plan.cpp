// SPDX-License-Identifier: MIT
#include "ddp/samplers/epoch_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {
namespace {

// A step of a multiplicative hash, with Knuth's constant: 2^64 divided by the golden ratio.
constexpr std::uint64_t mixed(std::uint64_t hash, std::int64_t value) {
  hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

void check(const EpochPlan::Layout& layout) {
  const bool is_in_world = layout.rank >= 0 && layout.rank < layout.world_size;
  if (layout.first >= 0 && layout.count >= 0 && layout.global_batch_size >= 1 && is_in_world) {
    return;
  }
  throw std::invalid_argument(
      "[epoch_plan] first is " + std::to_string(layout.first) + ", count " +
      std::to_string(layout.count) + ", global_batch_size " +
      std::to_string(layout.global_batch_size) + ", rank " + std::to_string(layout.rank) + " of " +
      std::to_string(layout.world_size) +
      "; first and count cannot be negative, the batch has at least one sample, and the rank is "
      "below the world size");
}

}  // namespace

EpochPlan::EpochPlan(const Layout& layout, std::vector<std::int64_t> order)
    : layout_(layout), order_(std::move(order)) {
  check(layout_);
  if (layout_.count > 0 && order_.empty()) {
    throw std::invalid_argument(
        "[epoch_plan] " + std::to_string(layout_.count) +
        " samples cannot be dealt out, since the order of the dataset is empty");
  }
  for (const std::int64_t sample : order_) order_hash_ = mixed(order_hash_, sample);
}

std::uint32_t EpochPlan::fingerprint() const {
  if (layout_.world_size == 1) return 0;
  std::uint64_t hash = order_hash_;
  for (const std::int64_t each : {layout_.first, layout_.count, layout_.global_batch_size,
                                  static_cast<std::int64_t>(layout_.world_size)}) {
    hash = mixed(hash, each);
  }
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(hash));
}

EpochPlan EpochPlan::whole_batches() && {
  layout_.count -= layout_.count % layout_.global_batch_size;
  return std::move(*this);
}

std::int64_t EpochPlan::steps() const {
  const std::int64_t size = layout_.global_batch_size;
  return layout_.count / size + (layout_.count % size != 0 ? 1 : 0);
}

std::int64_t EpochPlan::global_count(std::int64_t step) const {
  check_step(step);
  return std::min(layout_.global_batch_size, layout_.count - step * layout_.global_batch_size);
}

std::int64_t EpochPlan::count(std::int64_t step, int rank) const {
  if (rank < 0 || rank >= layout_.world_size) {
    throw std::invalid_argument("[epoch_plan] rank " + std::to_string(rank) + " is not in [0, " +
                                std::to_string(layout_.world_size - 1) + "]");
  }
  const std::int64_t total = global_count(step);
  return total / layout_.world_size + (rank < total % layout_.world_size ? 1 : 0);
}

std::vector<std::int64_t> EpochPlan::batch(std::int64_t step) const {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(count(step)));
  copy_batch(step, samples);
  return samples;
}

void EpochPlan::copy_batch(std::int64_t step, std::span<std::int64_t> samples) const {
  if (static_cast<std::int64_t>(samples.size()) != count(step)) {
    throw std::invalid_argument("[epoch_plan] room for " + std::to_string(samples.size()) +
                                " samples, but step " + std::to_string(step) + " has " +
                                std::to_string(count(step)));
  }
  std::int64_t position = layout_.first + step * layout_.global_batch_size + layout_.rank;
  for (std::int64_t& sample : samples) {
    sample = sample_at(position);
    position += layout_.world_size;
  }
}

std::vector<std::int64_t> EpochPlan::indices() const {
  std::vector<std::int64_t> all;
  for (std::int64_t step = 0; step < steps(); ++step) {
    const std::size_t done = all.size();
    all.resize(done + static_cast<std::size_t>(count(step)));
    copy_batch(step, std::span(all).subspan(done));
  }
  return all;
}

DataPosition EpochPlan::position(std::int64_t step) const {
  if (step == steps()) return {.epoch = layout_.epoch + 1, .consumed = 0};
  check_step(step);
  return {.epoch = layout_.epoch, .consumed = layout_.first + step * layout_.global_batch_size};
}

std::int64_t EpochPlan::sample_at(std::int64_t position) const {
  return order_[static_cast<std::size_t>(position) % order_.size()];
}

void EpochPlan::check_step(std::int64_t step) const {
  if (step >= 0 && step < steps()) return;
  throw std::invalid_argument("[epoch_plan] step " + std::to_string(step) + " of epoch " +
                              std::to_string(layout_.epoch) + " is not in [0, " +
                              std::to_string(steps()) + ")");
}

}  // namespace ddp
