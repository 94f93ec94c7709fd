// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/host_transfer.h"

#include <cstring>

#include "ddp/base/allocation.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

void HostTransfer::copy(const Buffer& source, const Buffer& target) {
  if (source.count == 0) return;
  if (source.dtype != target.dtype) return convert(source, target);
  if (!source.device.is_cuda() && !target.device.is_cuda()) {
    std::memcpy(target.data, source.data, source.size_bytes());
    return;
  }
  const Device device = target.device.is_cuda() ? target.device : source.device;
  if (pending_on_ != device) wait();
  const cu::DeviceGuard guard(device);  // of which a null stream is the default stream
  cu::copy_async(target.data, source.data, source.size_bytes(), stream_);
  pending_on_ = device;
}

// Casts on the CPU also for a device, so that no device memory is needed beside the caller's. It
// waits, because the memory on the host is released at the end.
void HostTransfer::convert(const Buffer& source, const Buffer& target) {
  if (!source.device.is_cuda() && !target.device.is_cuda()) return cpu::cast(source, target);
  const bool is_upload = target.device.is_cuda();
  const DType dtype = is_upload ? target.dtype : source.dtype;
  const Allocation memory = allocate_host(source.count * size_of(dtype));
  const Buffer on_host{memory.data(), source.count, dtype, kCpuDevice};
  if (is_upload) cpu::cast(source, on_host);
  is_upload ? copy(on_host, target) : copy(source, on_host);
  wait();
  if (!is_upload) cpu::cast(on_host, target);
}

void HostTransfer::wait() {
  if (!pending_on_) return;
  const cu::DeviceGuard guard(*pending_on_);
  cu::synchronize(stream_);
  pending_on_.reset();
}

void copy_and_wait(const Buffer& source, const Buffer& target, Stream stream) {
  HostTransfer transfer(stream);
  transfer.copy(source, target);
  transfer.wait();
}

}  // namespace ddp
