// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/named_buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

// A copy of tensors in host memory of its own, so that they may change while it is written to disk.
// Copies of the same tensors reuse the memory. Not thread-safe.
class HostCopy {
 public:
  // Copies tensors in CPU or device memory as `stream` leaves them; returns when that is done.
  void take(std::span<const NamedBuffer> tensors, Stream stream = {});

  // What was taken last, with views of this object's memory.
  [[nodiscard]] const std::vector<NamedBuffer>& tensors() const { return tensors_; }

 private:
  void reserve(std::span<const NamedBuffer> tensors);

  Allocation memory_;
  std::vector<NamedBuffer> tensors_;
};

}  // namespace ddp
