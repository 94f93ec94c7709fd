// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp::nn {

// Whether a layer adds a bias. Not a bool, which would convert to a number.
enum class Bias : std::uint8_t { kNo, kYes };

}  // namespace ddp::nn
