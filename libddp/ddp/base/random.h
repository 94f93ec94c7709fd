// SPDX-License-Identifier: MIT
//
// Random numbers as pure functions: draw `index` of stream `stream` under `seed` depends on no
// earlier draw. Results therefore do not depend on the order of calls, threads, ranks or the
// standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace ddp {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Draw `index` of the splitmix64 generator that starts from a mixture of seed and stream.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                  std::uint64_t index) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t start = mix_bits(mix_bits(seed + kGolden) ^ stream);
  return mix_bits(start + (index + 1) * kGolden);
}

// A uniform number in [0, 1) with 53 random bits.
[[nodiscard]] constexpr double random_unit(std::uint64_t seed, std::uint64_t stream,
                                           std::uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

// A standard normal number, from draws 2 * index and 2 * index + 1 (Box and Muller 1958).
[[nodiscard]] inline double random_normal(std::uint64_t seed, std::uint64_t stream,
                                          std::uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(1 - random_unit(seed, stream, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * random_unit(seed, stream, 2 * index + 1));
}

// The stream that belongs to a name: its FNV-1a hash.
[[nodiscard]] constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace ddp
