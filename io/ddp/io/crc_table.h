// SPDX-License-Identifier: MIT
//
// 32-bit cyclic redundancy checks with reflected bits, one byte at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ddp {

// Maps each byte to its remainder, for a polynomial with its bits reversed.
constexpr std::array<std::uint32_t, 256> make_crc_table(std::uint32_t polynomial) {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? polynomial : 0);
    table[byte] = value;
  }
  return table;
}

// Continues a check: `before` is the value of the preceding bytes, 0 if there are none.
inline std::uint32_t continue_crc(const std::array<std::uint32_t, 256>& table, std::uint32_t before,
                                  std::span<const unsigned char> bytes) {
  std::uint32_t value = ~before;
  for (const unsigned char byte : bytes) value = value >> 8 ^ table[(value ^ byte) & 0xff];
  return ~value;
}

}  // namespace ddp
