// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

// Copies between CPU and device memory, either way, or within CPU memory. Those of a device run on
// one stream; both sides are left alone until wait() has returned.
class HostTransfer {
 public:
  explicit HostTransfer(Stream stream) : stream_(stream) {}

  // Of equally many bytes.
  void copy(const Buffer& source, const Buffer& target);
  void wait();

 private:
  Stream stream_;
  bool is_pending_ = false;
};

}  // namespace ddp
