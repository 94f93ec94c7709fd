// SPDX-License-Identifier: MIT
#include "ddp/data/batch_ring.h"

#include "ddp/base/error.h"

namespace ddp {

BatchRing::BatchRing(const Dataset& dataset, DType dtype, Device device, std::size_t slots)
    : dataset_(dataset), dtype_(dtype), device_(device), slots_(slots) {
  if (!device_.is_cuda()) return;
  copies_ = cu::OwnedStream(device_);
  for (Slot& slot : slots_) {
    // A worker sleeps until the staging memory is free, because spinning would take a core from the
    // trainer.
    slot.copied = cu::Event(device_, cu::EventTiming::kDisabled, cu::HostWait::kSleeps);
    slot.released = cu::Event(device_);
  }
}

// Copies may still read the memory that is about to be freed.
BatchRing::~BatchRing() {
  if (!device_.is_cuda()) return;
  try {
    copies_.synchronize();
  } catch (const CudaError&) {
    // The device is lost, and its copies with it.
  }
}

void BatchRing::reserve(std::size_t samples) {
  if (samples <= capacity_) return;
  // Memory that is freed waits for the consumer's work by itself.
  if (device_.is_cuda()) copies_.synchronize();
  for (Slot& slot : slots_) reserve(slot, samples);
  capacity_ = samples;
}

void BatchRing::reserve(Slot& slot, std::size_t samples) {
  const cu::DeviceGuard guard(device_);
  const auto allocate = [&](std::size_t size_bytes) {
    return device_.is_cuda() ? cu::allocate_pinned(size_bytes) : allocate_host(size_bytes);
  };
  const Batch sizes = view({}, device_, samples);
  slot.samples.reserve(samples);
  slot.host = {allocate(sizes.inputs.size_bytes()), allocate(sizes.labels.size_bytes())};
  if (!device_.is_cuda()) return;
  slot.device = {cu::allocate_device(sizes.inputs.size_bytes(), device_),
                 cu::allocate_device(sizes.labels.size_bytes(), device_)};
}

void BatchRing::fill(std::size_t index, const EpochPlan& plan, std::int64_t step,
                     const std::stop_token& cancelled) {
  const cu::DeviceGuard guard(device_);
  Slot& slot = slots_[index];
  slot.samples.resize(static_cast<std::size_t>(plan.count(step)));
  plan.copy_batch(step, slot.samples);
  if (device_.is_cuda()) slot.copied.synchronize();
  const Batch host = view(slot.host, kCpuDevice, slot.samples.size());
  dataset_.gather(slot.samples, host.inputs, host.labels, plan.epoch(), cancelled);
  if (cancelled.stop_requested()) return;
  slot.batch = device_.is_cuda() ? copy_to_device(slot, host) : host;
  slot.batch.rank = plan.rank();
  slot.batch.world_size = plan.world_size();
  slot.batch.epoch = plan.epoch();
  slot.batch.plan_fingerprint = plan.fingerprint();
  slot.batch.step = step;
  slot.batch.global_count = plan.global_count(step);
}

Batch BatchRing::acquire(std::size_t index, Stream stream) {
  const Slot& slot = slots_[index];
  if (device_.is_cuda()) slot.copied.make_wait(stream);
  return slot.batch;
}

void BatchRing::release(std::size_t index, Stream stream) {
  if (device_.is_cuda()) slots_[index].released.record(stream);
}

Batch BatchRing::view(const Storage& storage, Device device, std::size_t samples) const {
  const DType label_dtype = dataset_.label_dtype(dtype_);
  const std::size_t inputs = elements_of(dataset_.input_shape(), samples, dtype_);
  const std::size_t labels = elements_of(dataset_.label_shape(), samples, label_dtype);
  return {.inputs = {storage.inputs.data(), inputs, dtype_, device},
          .labels = {storage.labels.data(), labels, label_dtype, device},
          .count = static_cast<std::int64_t>(samples)};
}

Batch BatchRing::copy_to_device(Slot& slot, const Batch& host) {
  const Batch batch = view(slot.device, device_, static_cast<std::size_t>(host.count));
  slot.released.make_wait(copies_.view());  // the consumer may still read the slot's previous batch
  cu::copy_async(batch.inputs.data, host.inputs.data, host.inputs.size_bytes(), copies_.view());
  cu::copy_async(batch.labels.data, host.labels.data, host.labels.size_bytes(), copies_.view());
  slot.copied.record(copies_.view());
  return batch;
}

}  // namespace ddp
