// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/divisor.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <type_traits>

using ddp::detail::Divisor;
using ddp::detail::with_index;

namespace {

constexpr std::uint32_t kEnd = std::uint32_t{1} << 31;

bool divides_all(std::uint32_t d, std::uint32_t n) {
  const Divisor<std::uint32_t> divisor(d);
  return n / divisor == n / d && n % divisor == n % d && divisor == d;
}

}  // namespace

TEST_CASE("a Divisor divides like a number", "[divisor]") {
  std::mt19937 engine(1);
  std::uniform_int_distribution<std::uint32_t> draw(0, kEnd - 1);
  std::uint32_t wrong = 0;
  const auto check = [&](std::uint32_t d) {
    // Quotients change at multiples.
    for (const std::uint32_t n : {0U, 1U, d - 1, d, kEnd - 1, (kEnd - 1) / d * d,
                                  (kEnd - 1) / d * d - 1, draw(engine), draw(engine) / d * d}) {
      wrong += n < kEnd && !divides_all(d, n);
    }
  };
  for (std::uint32_t d = 1; d < 5000; ++d) check(d);
  for (unsigned bit = 1; bit < 31; ++bit) {
    for (const std::uint32_t d : {(1U << bit) - 1, 1U << bit, (1U << bit) + 1}) check(d);
  }
  for (int i = 0; i < 100'000; ++i) check(1 + draw(engine) % (kEnd - 1));
  CHECK(wrong == 0);
  CHECK(std::size_t{1000} / Divisor<std::size_t>(7) == 142);
  CHECK(std::size_t{1000} % Divisor<std::size_t>(7) == 6);
}

TEST_CASE("the index has 32 bits if all numbers are below 2^31", "[divisor]") {
  const auto size = [](std::size_t largest) {
    std::size_t bytes = 0;
    with_index(largest, [&](auto index) { bytes = sizeof(index); });
    return bytes;
  };
  CHECK(size(0) == 4);
  CHECK(size(kEnd - 1) == 4);
  CHECK(size(kEnd) == 8);
}
