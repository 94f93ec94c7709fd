// SPDX-License-Identifier: MIT
//
// Stands in for conv2d_onednn.cpp in a build without oneDNN.
#include "ddp/kernels/conv2d.h"

namespace ddp::cpu {

std::unique_ptr<Conv2dBackend> make_onednn_conv2d() { return nullptr; }

}  // namespace ddp::cpu
