// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp {

enum class DataSplit : std::uint8_t { kTrain, kTest };

}  // namespace ddp
