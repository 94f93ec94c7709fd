// SPDX-License-Identifier: MIT
#include "ddp/io/host_transfer.h"

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

// Casts on the CPU also for a device, so that no device memory is needed beside the target.
void HostTransfer::convert(const Buffer& source, const Buffer& target) {
  if (!target.device.is_cuda()) return cpu::cast(source, target);
  const Allocation memory = allocate_host(target.size_bytes());
  const Buffer converted{memory.data(), target.count, target.dtype, kCpuDevice};
  cpu::cast(source, converted);
  copy(converted, target);
  wait();  // the copy reads memory that is about to be released
}

void HostTransfer::wait() {
  if (!pending_on_) return;
  const cu::DeviceGuard guard(*pending_on_);
  cu::synchronize(stream_);
  pending_on_.reset();
}

}  // namespace ddp
