// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ddp/base/named_buffer.h"

namespace ddp {

// SHA-256 (FIPS 180-4) of a message given in pieces.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);

  // 64 hexadecimal digits. Ends the message: no update() may follow.
  [[nodiscard]] std::string finish();

 private:
  static constexpr std::size_t kBlockBytes = 64;

  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> pending_{};
  std::uint64_t size_bytes_ = 0;  // of the message so far
};

// The hash of the elements' bytes, one buffer after the other, without names and shapes. The same
// as hashlib.sha256(b"".join(t.tobytes() for t in tensors)). std::invalid_argument unless all
// tensors are in CPU memory.
[[nodiscard]] std::string sha256(std::span<const NamedBuffer> tensors);

}  // namespace ddp
