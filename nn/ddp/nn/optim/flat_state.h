// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "ddp/nn/parameter.h"

namespace ddp::nn {

// A tensor beside each parameter, of its shape and dtype, zeroed at first: what an optimizer
// remembers. All lie in one piece of memory, each from a cache line's begin.
class FlatState {
 public:
  // Throws std::invalid_argument unless all parameters have one dtype and are on one device.
  explicit FlatState(std::span<Parameter* const> parameters);

  [[nodiscard]] const Buffer& operator[](std::size_t i) const { return buffers_[i]; }

 private:
  Tensor memory_;
  std::vector<Buffer> buffers_;  // by parameter
};

}  // namespace ddp::nn
