// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/kernels/shapes.h"

// Before a loop each of whose iterations reads and writes elements of its own, also where what it
// reads and what it writes are the same memory. (Clang warns where such a loop stays as it is.)
#ifdef __clang__
#define DDP_INDEPENDENT_ITERATIONS
#else
#define DDP_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace ddp::detail {

// Writes value(i) to, or adds it to, target[i] for all i below `count`. value(i) reads nothing of
// `target` but element i. Each mode has a loop of its own, without a choice in it.
template <class T, class Value>
void write_each(T* target, WriteMode mode, std::size_t count, const Value& value) {
  if (mode == WriteMode::kAccumulate) {
    DDP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) target[i] += value(i);
  } else {
    DDP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) target[i] = value(i);
  }
}

}  // namespace ddp::detail
