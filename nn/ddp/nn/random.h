// SPDX-License-Identifier: MIT
//
// The random numbers of ddp/base/random.h under the names that nn's users know.
#pragma once

#include "ddp/base/random.h"

namespace ddp::nn {

using ddp::mix_bits;
using ddp::random_bits;
using ddp::random_normal;
using ddp::random_unit;
using ddp::stream_of;

}  // namespace ddp::nn
