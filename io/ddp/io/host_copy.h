// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/named_buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

// A copy of tensors in host memory, so that the tensors may change while the copy is written to
// disk. Copying the same tensors again reuses the memory. Not thread-safe.
class HostCopy {
 public:
  // Copies tensors in CPU or device memory as `stream` leaves them; returns when the copies are
  // done.
  void take(std::span<const NamedBuffer> tensors, Stream stream = {});

  // The last copy, as views of this object's memory.
  [[nodiscard]] const std::vector<NamedBuffer>& tensors() const { return tensors_; }

 private:
  void reserve(std::span<const NamedBuffer> tensors);

  Allocation memory_;
  std::vector<NamedBuffer> tensors_;
};

}  // namespace ddp
