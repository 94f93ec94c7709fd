// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"
#include "ddp/collectives/nccl/nccl_communicator.h"

namespace ddp {

// Zeroed memory from ncclMemAlloc, registered with the communicator, which saves its kernels a
// copy; ordinary device memory if it is small or NCCL cannot allocate it. `before_release` must not
// throw.
[[nodiscard]] Allocation allocate_registered(std::shared_ptr<NcclCommunicator> communicator,
                                             std::size_t size_bytes, Device device,
                                             std::function<void()> before_release);

}  // namespace ddp
