// SPDX-License-Identifier: MIT
#include "ddp/data/batch_loader.h"

#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

std::size_t elements(std::span<const std::int64_t> shape) {
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

}  // namespace

BatchLoader::BatchLoader(const Dataset& dataset, const BatchLoaderOptions& options)
    : dataset_(dataset), options_(options) {
  if (options_.device.is_cuda()) copied_ = cu::Event(options_.device);
}

void BatchLoader::start(EpochPlan plan) {
  // No later batch is larger than the first.
  if (plan.steps() > 0) reserve(static_cast<std::size_t>(plan.count(0)));
  plan_ = std::move(plan);
  step_ = 0;
}

std::optional<Batch> BatchLoader::next(Stream stream) {
  if (step_ == plan().steps()) return std::nullopt;
  const auto indices = plan_->batch(step_);
  if (options_.device.is_cuda()) copied_.synchronize();
  Batch batch = view(host_, kCpuDevice, indices.size());
  dataset_.gather(indices, batch.inputs, batch.labels);
  if (options_.device.is_cuda()) batch = copy_to_device(batch, stream);
  batch.global_count = plan_->global_count(step_);
  batch.step = step_++;
  return batch;
}

const EpochPlan& BatchLoader::plan() const {
  if (!plan_) throw std::logic_error("[batch_loader] start() has not been called");
  return *plan_;
}

void BatchLoader::reserve(std::size_t samples) {
  if (samples <= capacity_) return;
  const bool cuda = options_.device.is_cuda();
  if (cuda) copied_.synchronize();
  const auto allocate = [&](std::size_t size_bytes) {
    return cuda ? cu::allocate_pinned(size_bytes) : allocate_host(size_bytes);
  };
  const Batch sizes = view({}, options_.device, samples);
  host_ = {allocate(sizes.inputs.size_bytes()), allocate(sizes.labels.size_bytes())};
  if (cuda) {
    device_ = {cu::allocate_device(sizes.inputs.size_bytes(), options_.device),
               cu::allocate_device(sizes.labels.size_bytes(), options_.device)};
  }
  capacity_ = samples;
}

Batch BatchLoader::view(const Storage& storage, Device device, std::size_t samples) const {
  const std::size_t inputs = samples * elements(dataset_.input_shape());
  const std::size_t labels = samples * elements(dataset_.label_shape());
  return {.inputs = {storage.inputs.data(), inputs, options_.dtype, device},
          .labels = {storage.labels.data(), labels, DType::kInt64, device},
          .count = static_cast<std::int64_t>(samples)};
}

// The host does not wait: the consumer's work on `stream` comes behind the copies, and its work on
// the previous batch before them.
Batch BatchLoader::copy_to_device(const Batch& host, Stream stream) {
  const Batch batch = view(device_, options_.device, static_cast<std::size_t>(host.count));
  cu::copy_async(batch.inputs.data, host.inputs.data, host.inputs.size_bytes(), stream);
  cu::copy_async(batch.labels.data, host.labels.data, host.labels.size_bytes(), stream);
  copied_.record(stream);
  return batch;
}

}  // namespace ddp
