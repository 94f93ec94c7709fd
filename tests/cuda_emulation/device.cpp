// SPDX-License-Identifier: MIT
#include "cuda_emulation/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <vector>

namespace ddp::emulation {

constinit thread_local int current_device = 0;

namespace {

constexpr int kMaxDevices = 8;

struct Device {
  std::atomic<bool> has_context = false;
  std::mutex mutex;
  std::vector<std::weak_ptr<Queue>> queues;
  std::vector<std::weak_ptr<Queue>> ordered_with_default;
  CUstream_st* default_stream = nullptr;
};

// Never destroyed, since threads may use it after main() has ended.
Device& device_at(int index) {
  static auto* const devices = new std::array<Device, kMaxDevices>;
  return devices->at(static_cast<std::size_t>(index));
}

Device& this_device() { return device_at(current_device); }

Queue::Patience patience_of(int priority) {
  const bool has_priority = priority < 0 && std::getenv("DDP_EMULATED_PRIORITIES") != nullptr;
  if (has_priority) return Queue::kAtOnce;
  const char* milliseconds = std::getenv("DDP_EMULATED_PATIENCE");
  return Queue::Patience(milliseconds == nullptr ? 10 : std::atoi(milliseconds));
}

std::shared_ptr<Queue> open_on_this_device(Queue::Patience patience) {
  Device& device = this_device();
  auto queue = Queue::open(patience);
  const std::lock_guard lock(device.mutex);
  std::erase_if(device.queues, [](const auto& other) { return other.expired(); });
  device.queues.push_back(queue);
  return queue;
}

CUstream_st& default_stream() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  CUstream_st*& stream = this_device().default_stream;
  if (stream == nullptr) stream = new CUstream_st;
  return *stream;
}

// What `later` gets from now on runs behind what `earlier` has now.
void put_behind(Queue& later, const std::shared_ptr<Queue>& earlier) {
  const std::uint64_t position = earlier->last();
  if (!earlier->has_run(position)) later.push([earlier, position] { earlier->wait(position); });
}

void put_default_stream_behind_ordered(Queue& queue) {
  Device& device = this_device();
  std::unique_lock lock(device.mutex);
  const auto ordered = device.ordered_with_default;
  lock.unlock();
  for (const auto& each : ordered) {
    if (const auto open = each.lock()) put_behind(queue, open);
  }
}

// One stream per thread for all devices, which suffices for the tests so far.
CUstream_st& stream_of_thread() {
  static thread_local CUstream_st stream;
  return stream;
}

}  // namespace

// Puts a stream of the current device in order with its default stream.
void order_with_default(const std::shared_ptr<Queue>& queue) {
  Device& device = this_device();
  const std::lock_guard lock(device.mutex);
  std::erase_if(device.ordered_with_default, [](const auto& other) { return other.expired(); });
  device.ordered_with_default.push_back(queue);
}

int device_count() {
  const char* count = std::getenv("DDP_EMULATED_GPUS");
  return count == nullptr ? 1 : std::clamp(std::atoi(count), 0, kMaxDevices);
}

void use_current_device() { this_device().has_context = true; }

bool has_context(int device) { return device_at(device).has_context; }

int device_of(cudaStream_t stream) {
  const bool is_default = stream == nullptr || stream == cudaStreamPerThread;
  return is_default ? current_device : stream->device;
}

const std::shared_ptr<Queue>& shared_queue_of(cudaStream_t stream) {
  if (stream == cudaStreamPerThread) return stream_of_thread().queue;
  CUstream_st& own = stream == nullptr ? default_stream() : *stream;
  if (stream == nullptr) put_default_stream_behind_ordered(*own.queue);
  if (own.is_ordered_with_default) put_behind(*own.queue, default_stream().queue);
  return own.queue;
}

Queue& queue_of(cudaStream_t stream) { return *shared_queue_of(stream); }

void wait_for_device() {
  Device& device = this_device();
  std::unique_lock lock(device.mutex);
  const auto queues = device.queues;
  lock.unlock();
  for (const auto& queue : queues) {
    if (const auto open = queue.lock()) open->wait_for_all();
  }
}

}  // namespace ddp::emulation

CUstream_st::CUstream_st(int priority, bool is_ordered)
    : device(ddp::emulation::current_device),
      is_ordered_with_default(is_ordered),
      queue(ddp::emulation::open_on_this_device(ddp::emulation::patience_of(priority))) {
  if (is_ordered) ddp::emulation::order_with_default(queue);
}
