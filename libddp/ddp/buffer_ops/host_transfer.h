// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

// Copies between CPU and device memory, in either direction, or within CPU memory. Copies from and
// to a device run on one stream (null: that device's default stream). Nobody may touch source or
// target until wait() has returned.
class HostTransfer {
 public:
  explicit HostTransfer(Stream stream) : stream_(stream) {}

  // Source and target have the same count. If their dtypes differ, the elements are cast.
  void copy(const Buffer& source, const Buffer& target);
  void wait();

 private:
  void convert(const Buffer& source, const Buffer& target);

  Stream stream_;
  std::optional<Device> pending_on_;
};

// One such copy, which has been made when this returns.
void copy_and_wait(const Buffer& source, const Buffer& target, Stream stream);

}  // namespace ddp
