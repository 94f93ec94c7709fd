// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

namespace ddp {

// kAverage is the sum divided by the number of ranks, for floating-point types only.
enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kAverage };

[[nodiscard]] constexpr std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
  }
  return "unknown";
}

}  // namespace ddp
