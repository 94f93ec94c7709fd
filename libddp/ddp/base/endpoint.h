// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "10.0.0.1:29500" or "[::1]:29500".
[[nodiscard]] std::string to_string(const Endpoint& endpoint);

}  // namespace ddp
