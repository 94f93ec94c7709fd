// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"

namespace ddp::detail {

// Host memory that is reused, and grows when more is asked for.
class Scratch {
 public:
  // Returns at least that many bytes, aligned to kHostAlignment, of undefined content. Invalidates
  // the memory of earlier calls.
  void* at_least(std::size_t size_bytes) {
    if (memory_.size_bytes() < size_bytes) {
      memory_ = {};
      memory_ = allocate_host(size_bytes);
    }
    return memory_.data();
  }

 private:
  Allocation memory_;
};

}  // namespace ddp::detail
