// SPDX-License-Identifier: MIT
//
// The functions of CUDA's runtime that libddp calls. Streams are threads, and device memory is host
// memory. Which device must be current is what the programming guide says in "Multi-Device System".
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_emulation/block.h"
#include "cuda_emulation/device.h"
#include "cuda_emulation/memory.h"
#include "cuda_emulation/stream.h"

namespace emulation = ddp::emulation;
using emulation::Queue;
using emulation::Range;

namespace {

// The point in a stream that cudaEventRecord() recorded.
struct Record {
  std::shared_ptr<Queue> queue;
  std::uint64_t position = 0;
  std::atomic<emulation::Clock::time_point> time{};
};

}  // namespace

struct CUevent_st {
  const int device = emulation::current_device;
  bool has_timing = false;
  std::mutex mutex;
  std::shared_ptr<Record> record;  // null until it is recorded

  std::shared_ptr<Record> last() {
    const std::lock_guard lock(mutex);
    return record;
  }
};

namespace {

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t allocate(void** data, std::size_t size_bytes, int device) {
  emulation::use_current_device();
  *data = emulation::allocate(size_bytes, device);
  return result(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

// Does not wait for the device, since CUDA does not promise that: work that still uses the memory
// ends the process.
cudaError_t release(void* data) {
  emulation::use_current_device();
  if (data == nullptr) return cudaSuccess;
  return result(emulation::release(data) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // namespace

namespace ddp::emulation {

cudaError_t launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                   const std::function<void()>& thread) {
  if (blocks == 0 || threads == 0 || threads > kMaxThreads) {
    return result(cudaErrorInvalidConfiguration);
  }
  use_current_device();
  if (device_of(stream) != current_device) return result(cudaErrorInvalidResourceHandle);
  queue_of(stream).push([=] { run_grid(blocks, threads, thread); });
  return cudaSuccess;
}

}  // namespace ddp::emulation

// Errors.

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return "an error without a name in the emulation";
  }
}

const char* cudaGetErrorString(cudaError_t) { return "CPU emulation"; }

// Devices.

cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulation::device_count();
  return result(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = emulation::current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulation::device_count()) return result(cudaErrorInvalidDevice);
  emulation::current_device = device;
  emulation::use_current_device();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<std::size_t>(size), "CPU emulation %d", device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  emulation::use_current_device();
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  emulation::use_current_device();
  emulation::wait_for_device();
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

// Memory.

cudaError_t cudaMalloc(void** data, std::size_t size_bytes) {
  return allocate(data, size_bytes, emulation::current_device);
}
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaHostAlloc(void** data, std::size_t size_bytes, unsigned) {
  return allocate(data, size_bytes, emulation::kPinned);
}
cudaError_t cudaFreeHost(void* data) { return release(data); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const int device = emulation::device_of(data);
  *attributes = {};
  attributes->type = device == emulation::kUnregistered ? cudaMemoryTypeUnregistered
                     : device == emulation::kPinned     ? cudaMemoryTypeHost
                                                        : cudaMemoryTypeDevice;
  attributes->device = device;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  emulation::use_current_device();
  *total = emulation::device_bytes();
  *free = *total - emulation::used_bytes();
  return cudaSuccess;
}

// The source is read when the copy runs. Pageable memory, however, is read at once, since its owner
// may reuse it.
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t size_bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  emulation::use_current_device();
  const Range from = emulation::classify(source, size_bytes);
  if (from == Range::kBeyond || emulation::classify(target, size_bytes) == Range::kBeyond) {
    return result(cudaErrorInvalidValue);
  }
  if (from == Range::kInside) {
    emulation::queue_of(stream).push([=] { std::memmove(target, source, size_bytes); });
    return cudaSuccess;
  }
  const auto* const bytes = static_cast<const std::byte*>(source);
  const std::vector<std::byte> staged(bytes, bytes + size_bytes);
  emulation::queue_of(stream).push([=] { std::memcpy(target, staged.data(), size_bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, std::size_t size_bytes, cudaStream_t stream) {
  emulation::use_current_device();
  if (emulation::classify(target, size_bytes) != Range::kInside) {
    return result(cudaErrorInvalidValue);
  }
  emulation::queue_of(stream).push([=] { std::memset(target, value, size_bytes); });
  return cudaSuccess;
}

// Streams.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  emulation::use_current_device();
  const bool is_ordered = flags == cudaStreamDefault;
  if (!is_ordered && flags != cudaStreamNonBlocking) return result(cudaErrorNotSupported);
  *stream = new CUstream_st(priority, is_ordered);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulation::use_current_device();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulation::use_current_device();
  emulation::queue_of(stream).wait_for_all();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  emulation::use_current_device();
  if (const auto record = event->last()) {
    emulation::queue_of(stream).push([record] { record->queue->wait(record->position); });
  }
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  emulation::use_current_device();
  emulation::queue_of(stream).push([=] { function(data); });
  return cudaSuccess;
}

// Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  emulation::use_current_device();
  *event = new CUevent_st;
  (*event)->has_timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  emulation::use_current_device();
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  emulation::use_current_device();
  if (emulation::device_of(stream) != event->device) return result(cudaErrorInvalidResourceHandle);
  const auto record = std::make_shared<Record>();
  record->queue = emulation::shared_queue_of(stream);
  const std::lock_guard lock(event->mutex);
  record->position = record->queue->push([record] { record->time = emulation::Clock::now(); });
  event->record = record;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  emulation::use_current_device();
  const auto record = event->last();
  return result(record == nullptr || record->queue->has_run(record->position) ? cudaSuccess
                                                                              : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulation::use_current_device();
  if (const auto record = event->last()) record->queue->wait(record->position);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  emulation::use_current_device();
  const auto first = start->last(), second = end->last();
  if (!start->has_timing || !end->has_timing || first == nullptr || second == nullptr ||
      start->device != end->device) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (cudaEventQuery(start) != cudaSuccess || cudaEventQuery(end) != cudaSuccess) {
    return cudaErrorNotReady;
  }
  const std::chrono::duration<float, std::milli> elapsed = second->time.load() - first->time.load();
  *milliseconds = elapsed.count();
  return cudaSuccess;
}
