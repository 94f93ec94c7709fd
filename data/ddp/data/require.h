// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

namespace ddp {

inline void require(bool condition, const std::string& complaint) {
  if (!condition) throw std::invalid_argument(complaint);
}

}  // namespace ddp
