// SPDX-License-Identifier: MIT
#include "ddp/nn/module.h"

namespace ddp::nn {

void Module::add(const Module& child) {
  parameters_.insert(parameters_.end(), child.parameters_.begin(), child.parameters_.end());
  buffers_.insert(buffers_.end(), child.buffers_.begin(), child.buffers_.end());
}

}  // namespace ddp::nn
