// SPDX-License-Identifier: MIT
//
// Follows randperm_cpu in PyTorch's aten/src/ATen/native/TensorFactories.cpp. Its engine is the
// 32-bit Mersenne Twister of the standard. Below a threshold each draw is 32 bits wide (Knuth's
// shuffle, forwards); from there on it is 64 bits wide, high word first, to keep the modulo's bias
// small, and the permutation is built inside out.
#include "ddp/samplers/randperm.h"

#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {
namespace {

constexpr std::int64_t kWideDrawsFrom = std::numeric_limits<std::uint32_t>::max() / 20;

void shuffle_narrow(std::vector<std::int64_t>& values, std::mt19937& engine) {
  std::iota(values.begin(), values.end(), std::int64_t{0});
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    std::swap(values[i], values[i + engine() % (values.size() - i)]);
  }
}

void shuffle_wide(std::vector<std::int64_t>& values, std::mt19937& engine) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t high = engine();
    const std::uint64_t low = engine();
    const std::uint64_t other = (high << 32 | low) % (i + 1);
    values[i] = values[other];
    values[other] = static_cast<std::int64_t>(i);
  }
}

}  // namespace

std::vector<std::int64_t> randperm(std::int64_t n, std::uint64_t seed) {
  if (n < 0) throw std::invalid_argument("[randperm] n is " + std::to_string(n) + ", below 0");
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  if (n < kWideDrawsFrom) {
    shuffle_narrow(values, engine);
  } else {
    shuffle_wide(values, engine);
  }
  return values;
}

}  // namespace ddp
