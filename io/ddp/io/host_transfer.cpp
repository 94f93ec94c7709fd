// SPDX-License-Identifier: MIT
#include "ddp/io/host_transfer.h"

#include <cstring>

#include "ddp/cuda/cuda.h"

namespace ddp {

void HostTransfer::copy(const Buffer& source, const Buffer& target) {
  if (source.count == 0) return;
  if (source.device.is_cuda() || target.device.is_cuda()) {
    cu::copy_async(target.data, source.data, source.size_bytes(), stream_);
    is_pending_ = true;
  } else {
    std::memcpy(target.data, source.data, source.size_bytes());
  }
}

void HostTransfer::wait() {
  if (is_pending_) cu::synchronize(stream_);
  is_pending_ = false;
}

}  // namespace ddp
