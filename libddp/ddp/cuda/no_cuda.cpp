// SPDX-License-Identifier: MIT
//
// Stands in for cuda.cpp in a build without the CUDA toolkit.
#include "ddp/base/error.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {
namespace {

constexpr const char* kWhy = "this build of libddp has no CUDA support";

[[noreturn]] void refuse() { throw CudaError(kWhy); }

}  // namespace

DeviceSurvey survey_devices() { return {.why_none = kWhy}; }
int device_count() { return 0; }
std::string pci_bus_id(Device) { refuse(); }

void make_current(Device device) {
  if (device.is_cuda()) refuse();
}

DeviceGuard::DeviceGuard(Device device) {
  if (device.is_cuda()) refuse();
}
DeviceGuard::~DeviceGuard() { static_cast<void>(previous_); }

OwnedStream::OwnedStream(Device, StreamPriority, StreamOrder) { refuse(); }
OwnedStream& OwnedStream::operator=(OwnedStream&&) noexcept = default;
OwnedStream::~OwnedStream() = default;
void OwnedStream::synchronize() const { refuse(); }

Event::Event(Device, EventTiming, HostWait) { refuse(); }
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;
void Event::record(Stream) { refuse(); }
void Event::make_wait(Stream) const { refuse(); }
bool Event::done() const { refuse(); }
void Event::synchronize() const { refuse(); }
float Event::milliseconds_since(const Event&) const { refuse(); }

Allocation allocate_device(std::size_t, Device) { refuse(); }
std::optional<Device> device_of(const void*) { return std::nullopt; }
std::size_t device_memory_bytes(Device) { refuse(); }
Allocation allocate_pinned(std::size_t) { refuse(); }
void copy_async(void*, const void*, std::size_t, Stream) { refuse(); }
void synchronize(Stream) { refuse(); }
void synchronize_device(Device) { refuse(); }

}  // namespace ddp::cu
