// SPDX-License-Identifier: MIT
//
// The little of CUDA that the engine owns. No CUDA header is included here; without the toolkit
// no_cuda.cpp stands in: device_count() is 0 and everything else throws CudaError.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"
#include "ddp/base/stream.h"

namespace ddp::cu {

// True if this build contains CUDA code (it may still meet a machine without a GPU).
[[nodiscard]] bool is_compiled_in();

// What this process finds of CUDA devices.
struct DeviceSurvey {
  int count = 0;              // those that are visible
  std::string why_none = {};  // if there are none
  bool is_fault = false;      // that is not for want of a driver, a GPU or CUDA support
};

// Neither throws.
[[nodiscard]] DeviceSurvey survey_devices();
[[nodiscard]] int device_count();

// "0000:3b:00.0": equal for two visible indices exactly if they are the same GPU.
[[nodiscard]] std::string pci_bus_id(Device device);

// Makes `device` current on this thread, for code that names none. A CPU device changes nothing.
void make_current(Device device);

// Makes `device` current on this thread while it lives. A CPU device changes nothing. A previous
// device that this process does not use yet is not restored: that would open a context on it, and
// every rank would end up with one on GPU 0.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

enum class StreamPriority { kDefault, kGreatest };

// Owns a non-blocking stream on a device; usable whichever device is current.
class OwnedStream {
 public:
  OwnedStream() = default;
  explicit OwnedStream(Device device, StreamPriority priority = StreamPriority::kDefault);
  OwnedStream(OwnedStream&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&& other) noexcept;
  ~OwnedStream();

  [[nodiscard]] Stream view() const { return {handle_}; }
  // Blocks the host until everything on the stream has run.
  void synchronize() const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

enum class EventTiming { kDisabled, kEnabled };

// What Event::synchronize() does with its core: spinning sees the event a few microseconds earlier.
enum class HostWait { kSpins, kSleeps };

// Owns an event on a device; usable whichever device is current. A null Stream stands for the
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
  // Work put on `stream` later runs after what was recorded; the host does not wait.
  void make_wait(Stream stream) const;
  // True once what was recorded has run; also while the process exits and CUDA is shut down.
  [[nodiscard]] bool done() const;
  void synchronize() const;
  // Milliseconds from `start` to this event; both with timing, both done.
  [[nodiscard]] float milliseconds_since(const Event& start) const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

// Device memory (cudaMalloc), zeroed; pinned host memory (cudaHostAlloc), usable by every device,
// for which the current one gets a context: hold a DeviceGuard. Freeing either blocks the host
// until all that runs on that device has ended, or for ten seconds: then it is freed later, when
// the device comes to an end.
[[nodiscard]] Allocation allocate_device(std::size_t size_bytes, Device device);
[[nodiscard]] Allocation allocate_pinned(std::size_t size_bytes);

// Asynchronous on `stream` (null: the current device's default stream); either side may be host or
// device memory.
void copy_async(void* destination, const void* source, std::size_t size_bytes, Stream stream);
// Block the host until what is on the stream, or on all of the device's, has run.
void synchronize(Stream stream);
void synchronize_device(Device device);

}  // namespace ddp::cu
