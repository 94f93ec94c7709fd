// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/cuda/cuda.h"

namespace ddp::test {

// Whether the tests run on tests/cuda_emulation, which is slow, and whose grids are small.
inline bool is_emulated() { return cu::pci_bus_id(cuda_device(0)).starts_with("CPU emulation"); }

}  // namespace ddp::test
