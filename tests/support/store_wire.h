// SPDX-License-Identifier: MIT
//
// For tests of a store's server and client, also byte by byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ddp/base/socket.h"

namespace ddp::test {

inline const Endpoint kLoopback{"127.0.0.1", 0};

// The bytes that these digits stand for.
inline std::string hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

}  // namespace ddp::test
