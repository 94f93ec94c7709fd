// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <type_traits>

#include "ddp/base/buffer.h"

namespace ddp {

// Objects of this host as bytes that collectives copy.
template <class T>
[[nodiscard]] Buffer bytes_of(std::span<T> objects) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {objects.data(), objects.size_bytes(), DType::kUInt8, kCpuDevice};
}

template <class T>
[[nodiscard]] Buffer bytes_of(T& object) {
  return bytes_of(std::span(&object, 1));
}

}  // namespace ddp
