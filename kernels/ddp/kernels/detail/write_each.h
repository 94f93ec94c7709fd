// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/kernels/shapes.h"

namespace ddp::detail {

// Writes value(i) to, or adds it to, target[i] for all i below `count`. value(i) reads nothing of
// `target` but element i. Each mode has a loop of its own, without a choice in it.
template <class T, class Value>
void write_each(T* target, WriteMode mode, std::size_t count, const Value& value) {
  if (mode == WriteMode::kAccumulate) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) target[i] += value(i);
  } else {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) target[i] = value(i);
  }
}

}  // namespace ddp::detail
