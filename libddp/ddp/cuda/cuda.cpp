// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"

#include <cuda.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <stdexcept>

#include "ddp/base/error.h"
#include "ddp/base/system/dynamic_library.h"
#include "ddp/cuda/check.h"
#include "ddp/cuda/release_when_idle.h"

namespace ddp::cu {
namespace {

cudaEvent_t event_of(void* native) { return static_cast<cudaEvent_t>(native); }

void require_cuda(const char* action, Device device) {
  if (device.is_cuda()) return;
  throw std::invalid_argument(std::string("[cuda] ") + action + ": needs a CUDA device, got " +
                              to_string(device));
}

// True if this process has a context on the device. Asks the driver, because every runtime call
// that could tell creates a context. The runtime has loaded the driver before this is called.
bool has_context(int device) {
  const DynamicLibrary driver("libcuda.so.1", DynamicLibrary::Lifetime::kThisIfThere);
  decltype(&cuDevicePrimaryCtxGetState) get_state = nullptr;
  unsigned int flags = 0;
  int active = 0;
  return driver.find("cuDevicePrimaryCtxGetState", get_state) &&
         get_state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// For destructors. Errors are dropped: a failed release reveals nothing that an earlier call did
// not report.
template <class Release>
void release_on(Device device, Release release) noexcept {
  try {
    const DeviceGuard guard(device);
    if (release() != cudaSuccess) static_cast<void>(cudaGetLastError());
  } catch (const CudaError&) {
  }
}

// Kernels and copies may still use the memory, and CUDA does not promise that cudaFree or
// cudaFreeHost waits for them. The wait costs no training time: after the first step, no step frees
// memory.
template <class Free>
void free_on(Device device, Free free) noexcept {
  release_when_idle(device, [free] {
    if (free() != cudaSuccess) static_cast<void>(cudaGetLastError());
  });
}

// cudaMemset may return before it has run, and a non-blocking stream would not wait for it.
void zero_device_memory(void* data, std::size_t size_bytes) {
  DDP_CUDA_CHECK(cudaMemsetAsync(data, 0, size_bytes, cudaStreamPerThread));
  DDP_CUDA_CHECK(cudaStreamSynchronize(cudaStreamPerThread));
}

std::string mebibytes(std::size_t size_bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(size_bytes) / (1 << 20));
  return text.data();
}

// Of the current device, in bytes.
struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};

MemoryInfo memory_info() {
  MemoryInfo info;
  DDP_CUDA_CHECK(cudaMemGetInfo(&info.free, &info.total));
  return info;
}

[[noreturn]] void refuse_allocation(std::size_t size_bytes, Device device) {
  static_cast<void>(cudaGetLastError());
  const MemoryInfo memory = memory_info();
  throw CudaError("[cuda] cannot allocate " + mebibytes(size_bytes) + " MiB on " +
                  to_string(device) + ": out of memory, " + mebibytes(memory.free) + " of " +
                  mebibytes(memory.total) +
                  " MiB are free; a smaller batch needs less, and nvidia-smi shows which processes "
                  "use the rest");
}

// The version as text, such as "12.4".
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// CUDA reports "driver too old" also if no driver is installed, but then the driver's version is 0.
DeviceSurvey survey_insufficient_driver() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (version == 0) return {.why_none = "no NVIDIA driver is installed"};
  return {.why_none = std::string(cudaGetErrorString(cudaErrorInsufficientDriver)) +
                      " (the driver is for CUDA " + version_text(version) + ", this build for " +
                      version_text(CUDART_VERSION) + ")",
          .is_fault = true};
}

// What helps, for errors that say something about the build or the machine's setup.
const char* advice_for(cudaError_t status) {
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "; the build has no code for this GPU: configure it with "
             "-DDDP_CUDA_ARCHITECTURES=native on this machine";
    case cudaErrorDevicesUnavailable:
      return "; another process may have this GPU for itself: nvidia-smi shows processes, and "
             "nvidia-smi -q -d COMPUTE the compute mode";
    case cudaErrorSystemNotReady:
      return "; GPUs behind NVSwitch need the service nvidia-fabricmanager";
    case cudaErrorSystemDriverMismatch:
      return "; the driver was updated while it was in use: reboot, or restart the container";
    default:
      return "";
  }
}

}  // namespace

void check(cudaError_t status, const char* expression) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const std::string why = status == cudaErrorInsufficientDriver
                              ? survey_insufficient_driver().why_none
                              : cudaGetErrorString(status);
  throw CudaError(std::string("[cuda] ") + expression + ": " + cudaGetErrorName(status) + " (" +
                  why + ")" + advice_for(status));
}

DeviceSurvey survey_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {.count = count};
  static_cast<void>(cudaGetLastError());
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    return {.why_none = cudaGetErrorString(cudaErrorNoDevice)};
  }
  if (status == cudaErrorInsufficientDriver) return survey_insufficient_driver();
  return {.why_none = std::string(cudaGetErrorString(status)) + advice_for(status),
          .is_fault = true};
}

int device_count() { return survey_devices().count; }

std::string pci_bus_id(Device device) {
  require_cuda("pci_bus_id", device);
  char id[32] = {};
  DDP_CUDA_CHECK(cudaDeviceGetPCIBusId(id, sizeof id, device.index));
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return id;
}

void make_current(Device device) {
  if (device.is_cuda()) DDP_CUDA_CHECK(cudaSetDevice(device.index));
}

DeviceGuard::DeviceGuard(Device device) {
  if (!device.is_cuda()) return;
  int current = 0;
  const cudaError_t status = cudaGetDevice(&current);
  if (status == cudaErrorCudartUnloading) return;  // the process is exiting; CUDA is shut down
  check(status, "cudaGetDevice");
  if (current == device.index) return;
  DDP_CUDA_CHECK(cudaSetDevice(device.index));
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ < 0 || !has_context(previous_)) return;
  if (cudaSetDevice(previous_) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

OwnedStream::OwnedStream(Device device, StreamPriority priority, StreamOrder order)
    : device_(device) {
  require_cuda("create a stream", device);
  const DeviceGuard guard(device);
  int least = 0;
  int greatest = 0;
  DDP_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  const unsigned flags =
      order == StreamOrder::kIndependent ? cudaStreamNonBlocking : cudaStreamDefault;
  // 0 is both CUDA's default priority and its lowest.
  DDP_CUDA_CHECK(cudaStreamCreateWithPriority(
      &stream, flags, priority == StreamPriority::kGreatest ? greatest : 0));
  handle_ = stream;
}

OwnedStream& OwnedStream::operator=(OwnedStream&& other) noexcept {
  OwnedStream moved(std::move(other));
  std::swap(device_, moved.device_);
  std::swap(handle_, moved.handle_);
  return *this;
}

OwnedStream::~OwnedStream() {
  if (handle_ == nullptr) return;
  release_on(device_, [this] { return cudaStreamDestroy(handle_); });
}

void OwnedStream::synchronize() const {
  const DeviceGuard guard(device_);
  DDP_CUDA_CHECK(cudaStreamSynchronize(handle_));
}

Event::Event(Device device, EventTiming timing, HostWait wait) : device_(device) {
  require_cuda("create an event", device);
  const DeviceGuard guard(device);
  const unsigned timing_flag =
      timing == EventTiming::kEnabled ? cudaEventDefault : cudaEventDisableTiming;
  const unsigned wait_flag = wait == HostWait::kSleeps ? cudaEventBlockingSync : cudaEventDefault;
  cudaEvent_t event = nullptr;
  DDP_CUDA_CHECK(cudaEventCreateWithFlags(&event, timing_flag | wait_flag));
  handle_ = event;
}

Event& Event::operator=(Event&& other) noexcept {
  Event moved(std::move(other));
  std::swap(device_, moved.device_);
  std::swap(handle_, moved.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ == nullptr) return;
  release_on(device_, [this] { return cudaEventDestroy(event_of(handle_)); });
}

void Event::record(Stream stream) {
  const DeviceGuard guard(device_);
  DDP_CUDA_CHECK(cudaEventRecord(event_of(handle_), stream.native));
}

void Event::make_wait(Stream stream) const {
  const DeviceGuard guard(device_);
  DDP_CUDA_CHECK(cudaStreamWaitEvent(stream.native, event_of(handle_), 0));
}

bool Event::done() const {
  const DeviceGuard guard(device_);
  const cudaError_t status = cudaEventQuery(event_of(handle_));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // CUDA records "not ready" as its last error
    return false;
  }
  if (status != cudaErrorCudartUnloading) check(status, "cudaEventQuery");
  return true;
}

// In the usual case the work has run, and then the host never enters a call that may block.
void Event::synchronize() const {
  if (done()) return;
  const DeviceGuard guard(device_);
  DDP_CUDA_CHECK(cudaEventSynchronize(event_of(handle_)));
}

float Event::milliseconds_since(const Event& start) const {
  const DeviceGuard guard(device_);
  float milliseconds = 0;
  DDP_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(start.handle_), event_of(handle_)));
  return milliseconds;
}

Allocation allocate_device(std::size_t size_bytes, Device device) {
  require_cuda("allocate_device", device);
  if (size_bytes == 0) return {};
  const DeviceGuard guard(device);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, size_bytes);
  if (status == cudaErrorMemoryAllocation) refuse_allocation(size_bytes, device);
  check(status, "cudaMalloc");
  Allocation allocation(data, size_bytes, [device](void* memory) {
    free_on(device, [memory] { return cudaFree(memory); });
  });
  zero_device_memory(data, size_bytes);
  return allocation;
}

std::optional<Device> device_of(const void* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
  if (attributes.type != cudaMemoryTypeDevice) return std::nullopt;
  return cuda_device(attributes.device);
}

std::size_t device_memory_bytes(Device device) {
  const DeviceGuard guard(device);
  return memory_info().total;
}

Allocation allocate_pinned(std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  Device device = cuda_device(0);
  DDP_CUDA_CHECK(cudaGetDevice(&device.index));
  void* data = nullptr;
  DDP_CUDA_CHECK(cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable));
  return {data, size_bytes,
          [device](void* memory) { free_on(device, [memory] { return cudaFreeHost(memory); }); }};
}

void copy_async(void* destination, const void* source, std::size_t size_bytes, Stream stream) {
  if (size_bytes == 0) return;
  DDP_CUDA_CHECK(
      cudaMemcpyAsync(destination, source, size_bytes, cudaMemcpyDefault, stream.native));
}

void synchronize_device(Device device) {
  const DeviceGuard guard(device);
  DDP_CUDA_CHECK(cudaDeviceSynchronize());
}

void synchronize(Stream stream) { DDP_CUDA_CHECK(cudaStreamSynchronize(stream.native)); }

}  // namespace ddp::cu
