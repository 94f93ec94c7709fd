// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/buffer.h"

namespace ddp {

// Whether two buffers have a byte of memory in common.
[[nodiscard]] inline bool overlap(const Buffer& a, const Buffer& b) {
  const auto begin = [](const Buffer& each) { return reinterpret_cast<std::uintptr_t>(each.data); };
  const auto end = [&](const Buffer& each) { return begin(each) + each.size_bytes(); };
  return begin(a) < end(b) && begin(b) < end(a);
}

}  // namespace ddp
