// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "ddp/base/device.h"
#include "ddp/base/dtype.h"

namespace ddp {

// A view of one contiguous operand; it owns nothing. buffer_of() makes one of typed memory. `count`
// is in elements; `data` may be null if `count` is 0. As with std::span, a const Buffer does not
// make its elements const.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
  Device device = kCpuDevice;

  constexpr Buffer() = default;
  constexpr Buffer(void* memory, std::size_t elements, DType type, Device where = kCpuDevice)
      : data(memory), count(elements), dtype(type), device(where) {}

  [[nodiscard]] constexpr std::size_t size_bytes() const { return count * size_of(dtype); }

  // Elements [offset, offset + n). The caller keeps the range inside the buffer.
  [[nodiscard]] Buffer slice(std::size_t offset, std::size_t n) const {
    return {static_cast<std::byte*>(data) + offset * size_of(dtype), n, dtype, device};
  }

  // The elements as T, the C++ type of `dtype`, which may be const. Another T is a
  // std::logic_error.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    check_dtype(dtype_of<std::remove_const_t<T>>);
    return {static_cast<T*>(data), count};
  }

 private:
  void check_dtype(DType expected) const {
    if (expected != dtype) [[unlikely]]
      throw_wrong_dtype(expected);
  }
  [[noreturn]] void throw_wrong_dtype(DType expected) const;
};

template <class T>
[[nodiscard]] Buffer buffer_of(std::span<T> elements, Device device = kCpuDevice) {
  static_assert(!std::is_const_v<T>,
                "a Buffer's elements may be written: pass memory that is not const");
  return {elements.data(), elements.size(), dtype_of<T>, device};
}

// For containers: std::vector<float> v; buffer_of(v). A std::array or a C array is one as well.
template <class Container>
requires requires(Container& c) { std::span(c); }
[[nodiscard]] Buffer buffer_of(Container& container, Device device = kCpuDevice) {
  using Element = typename decltype(std::span(container))::element_type;
  return buffer_of(std::span<Element>(container), device);
}

// "float32[1024] on cpu".
[[nodiscard]] inline std::string to_string(const Buffer& buffer) {
  return std::string(to_string(buffer.dtype)) + "[" + std::to_string(buffer.count) + "] on " +
         to_string(buffer.device);
}

}  // namespace ddp
