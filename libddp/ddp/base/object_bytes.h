// SPDX-License-Identifier: MIT
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

// An object as the value of a key, for processes of the same build.
template <class T>
[[nodiscard]] std::string string_of(const T& object) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&object), sizeof(T)};
}

// The object of such a value; nothing if the value has another size.
template <class T>
[[nodiscard]] std::optional<T> object_in(std::string_view value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (value.size() != sizeof(T)) return std::nullopt;
  T object;
  std::memcpy(&object, value.data(), sizeof(T));
  return object;
}

}  // namespace ddp
