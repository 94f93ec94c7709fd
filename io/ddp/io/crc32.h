// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

// CRC-32 as in gzip (RFC 1952, section 8), continued: `before` is the value of the preceding bytes,
// 0 if there are none.
[[nodiscard]] std::uint32_t crc32(std::uint32_t before, const void* data, std::size_t size_bytes);

}  // namespace ddp
