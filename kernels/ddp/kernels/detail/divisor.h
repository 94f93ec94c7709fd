// SPDX-License-Identifier: MIT
//
// Division by numbers that are known before a kernel starts. A GPU has no instruction for it: one
// division of 64-bit integers takes about as long as reading a hundred bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ddp/kernels/detail/host_device.h"

namespace ddp::detail {

// A number by which an Index is divided as usual. It may be 0 if it never is.
template <class Index>
class Divisor {
 public:
  Divisor(Index value) : value_(value) {}  // NOLINT(google-explicit-constructor): it is a number

  DDP_HOST_DEVICE operator Index() const { return value_; }  // NOLINT(google-explicit-constructor)
  DDP_HOST_DEVICE friend Index operator/(Index n, const Divisor& d) { return n / d.value_; }
  DDP_HOST_DEVICE friend Index operator%(Index n, const Divisor& d) { return n % d.value_; }

 private:
  Index value_;
};

// Divides numbers below 2^31 by one multiplication and a shift: Granlund and Montgomery, "Division
// by invariant integers using multiplication", PLDI 1994. With s = ceil(log2(d)) and
// m = ceil(2^(31 + s) / d) < 2^32, n * m / 2^(31 + s) exceeds n / d by less than 1 / d.
template <>
class Divisor<std::uint32_t> {
 public:
  using Index = std::uint32_t;

  Divisor(Index value)  // NOLINT(google-explicit-constructor)
      : value_(value),
        shift_(value == 0 ? 31 : 31 + static_cast<unsigned>(std::bit_width(value - 1))),
        multiplier_(value == 0 ? 0 : multiplier_for(value, shift_)) {}

  DDP_HOST_DEVICE operator Index() const { return value_; }  // NOLINT(google-explicit-constructor)
  DDP_HOST_DEVICE friend Index operator/(Index n, const Divisor& d) {
    return static_cast<Index>((static_cast<std::uint64_t>(n) * d.multiplier_) >> d.shift_);
  }
  DDP_HOST_DEVICE friend Index operator%(Index n, const Divisor& d) { return n - n / d * d.value_; }

 private:
  static Index multiplier_for(Index value, unsigned shift) {
    return static_cast<Index>(((std::uint64_t{1} << shift) + value - 1) / value);
  }

  Index value_;
  unsigned shift_;
  Index multiplier_;
};

// Calls f with a zero of the narrowest index for numbers up to `largest`: std::uint32_t, whose
// Divisor is fast, or std::size_t.
template <class F>
void with_index(std::size_t largest, F&& f) {
  if (largest < std::size_t{1} << 31) {
    f(std::uint32_t{0});
  } else {
    f(std::size_t{0});
  }
}

}  // namespace ddp::detail
