// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/base/buffer.h"

namespace ddp {

// A buffer with the name and shape under which `io` saves and loads it. The product of the shape is
// the buffer's count; a scalar has the empty shape.
struct NamedBuffer {
  std::string name;
  std::vector<std::int64_t> shape;
  Buffer buffer;
};

}  // namespace ddp
