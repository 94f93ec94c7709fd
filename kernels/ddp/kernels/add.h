// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp::cpu {

// y = a + b, element-wise. Any two of them may be the same memory.
void add(const Buffer& a, const Buffer& b, const Buffer& y);

}  // namespace ddp::cpu

namespace ddp::cu {

void add(const Buffer& a, const Buffer& b, const Buffer& y, Stream stream);

}  // namespace ddp::cu
