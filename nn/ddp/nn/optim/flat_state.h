// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "ddp/nn/parameter.h"

namespace ddp::nn {

// What an optimizer remembers: for each parameter a tensor of the same shape and dtype, initially
// zero. All tensors share one piece of memory, and each begins at a cache line.
class FlatState {
 public:
  // The caller has checked that all parameters have one dtype and are on one device.
  explicit FlatState(std::span<Parameter* const> parameters);

  [[nodiscard]] const Buffer& operator[](std::size_t i) const { return buffers_[i]; }

 private:
  Tensor memory_;
  std::vector<Buffer> buffers_;  // one per parameter
};

}  // namespace ddp::nn
