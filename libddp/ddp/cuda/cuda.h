// SPDX-License-Identifier: MIT
//
// The part of CUDA that the engine uses. This header includes no CUDA header. In a build without
// the toolkit, no_cuda.cpp takes the implementation's place: device_count() is 0, and what needs a
// GPU throws CudaError.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"
#include "ddp/base/stream.h"

namespace ddp::cu {

// The CUDA devices that this process can see.
struct DeviceSurvey {
  int count = 0;              // of visible devices
  std::string why_none = {};  // why count is 0; else empty
  bool is_fault = false;  // the reason is neither a missing driver or GPU nor a build without CUDA
};

// These do not throw.
[[nodiscard]] DeviceSurvey survey_devices();
[[nodiscard]] int device_count();

// "0000:3b:00.0". Two visible indices have the same id exactly if they are the same GPU.
[[nodiscard]] std::string pci_bus_id(Device device);

// Makes `device` current on this thread, for code that names no device. Does nothing for the CPU.
void make_current(Device device);

// Makes `device` current on this thread while the guard lives; does nothing for the CPU. The guard
// does not restore a previous device on which this process has no context yet: cudaSetDevice would
// create one, and every rank would end up with a context on GPU 0.
class DeviceGuard {
 public:
  [[nodiscard]] explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

enum class StreamPriority { kDefault, kGreatest };

// Whether a stream runs beside the device's default stream (cudaStreamNonBlocking), or whether each
// waits for what was enqueued on the other before. A null Stream means the default stream.
enum class StreamOrder { kIndependent, kWithDefaultStream };

// Owns a stream of a device. Can be used whichever device is current.
class OwnedStream {
 public:
  OwnedStream() = default;
  explicit OwnedStream(Device device, StreamPriority priority = StreamPriority::kDefault,
                       StreamOrder order = StreamOrder::kIndependent);
  OwnedStream(OwnedStream&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&& other) noexcept;
  ~OwnedStream();

  [[nodiscard]] Stream view() const { return {handle_}; }
  // Blocks the host until all work on the stream has run.
  void synchronize() const;

 private:
  Device device_;
  CUstream_st* handle_ = nullptr;
};

enum class EventTiming { kDisabled, kEnabled };

// How Event::synchronize() waits: spinning returns a few microseconds earlier, but uses a CPU.
enum class HostWait { kSpins, kSleeps };

// Owns an event of a device. Can be used whichever device is current. A null Stream means the
// default stream of the event's device.
class Event {
 public:
  Event() = default;
  explicit Event(Device device, EventTiming timing = EventTiming::kDisabled,
                 HostWait wait = HostWait::kSpins);
  Event(Event&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  void record(Stream stream);
  // Work enqueued on `stream` from now on runs after the recorded work; the host does not wait.
  void make_wait(Stream stream) const;
  // True once the recorded work has run; also true when CUDA is shut down at the exit of the
  // process.
  [[nodiscard]] bool done() const;
  void synchronize() const;
  // Milliseconds from `start` to this event. Both must have timing and be done.
  [[nodiscard]] float milliseconds_since(const Event& start) const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

// Device memory (cudaMalloc), zeroed, and pinned host memory (cudaHostAlloc), which every device
// can use. allocate_pinned creates a context on the current device, so hold a DeviceGuard. Freeing
// either waits until all work on that device has ended, but at most ten seconds; after that the
// memory is freed later, when the device's work has ended.
[[nodiscard]] Allocation allocate_device(std::size_t size_bytes, Device device);
[[nodiscard]] Allocation allocate_pinned(std::size_t size_bytes);
// The device that memory was allocated on. Nothing for memory of the host or of all devices, and
// where CUDA cannot tell.
[[nodiscard]] std::optional<Device> device_of(const void* memory);
// All memory of the device, whoever uses it.
[[nodiscard]] std::size_t device_memory_bytes(Device device);

// Asynchronous on `stream` (null: the current device's default stream). Source and destination may
// be host or device memory.
void copy_async(void* destination, const void* source, std::size_t size_bytes, Stream stream);
// Block the host until all work on the stream, or on all streams of the device, has run.
void synchronize(Stream stream);
void synchronize_device(Device device);

}  // namespace ddp::cu
