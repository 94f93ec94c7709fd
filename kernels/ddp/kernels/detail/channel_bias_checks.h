// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

inline void check_channel_bias(const char* kernel, const char* operand, const Buffer& y,
                               const Buffer& bias, const ChannelShape& shape) {
  require(kernel, operand, y, like(y, shape.count()));
  require(kernel, "bias", bias, like(y, shape.channels));
}

}  // namespace ddp::detail
