// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

namespace ddp {

// An option without a default: a program that leaves it out does not compile.
template <class T>
class Required {
 public:
  Required() = delete;  // "name this option"
  // From what initializes a T without narrowing.
  template <class U>
  requires requires(U&& value) { T{std::forward<U>(value)}; }
  constexpr Required(U&& value) : value_{std::forward<U>(value)} {}  // NOLINT: converts
  constexpr operator const T&() const noexcept { return value_; }    // NOLINT: converts

 private:
  T value_;
};

}  // namespace ddp
