// SPDX-License-Identifier: MIT
//
// Stands in for conv2d_cudnn.cpp in a build without cuDNN's header.
#include "ddp/kernels/conv2d.h"

namespace ddp::cu {

std::unique_ptr<Conv2dBackend> make_cudnn_conv2d(Device, Float32Precision) { return nullptr; }

}  // namespace ddp::cu
