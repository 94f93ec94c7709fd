// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/nccl/nccl_communicator.h"

namespace ddp {

// Allocates the memory of a group. If NCCL cannot allocate or register it, one warning of the group
// says so. Thread-safe. Memory may outlive this object.
class NcclMemory {
 public:
  using BeforeRelease = std::function<void(const void* memory, std::size_t size_bytes)>;

  NcclMemory(std::shared_ptr<NcclCommunicator> communicator, const GroupConfig& config);

  // Zeroed memory from ncclMemAlloc, registered with the communicator, which saves its kernels a
  // copy; ordinary device memory if it is small or NCCL cannot allocate it. `before_release` must
  // not throw.
  [[nodiscard]] Allocation allocate(std::size_t size_bytes, BeforeRelease before_release);

 private:
  [[nodiscard]] void* allocate_by_nccl(std::size_t size_bytes);
  [[nodiscard]] void* register_memory(void* data, std::size_t size_bytes);
  void warn_once(const char* what, std::size_t size_bytes, ncclResult_t result);

  std::shared_ptr<NcclCommunicator> communicator_;
  Device device_;
  std::string who_;
  std::atomic<bool> has_warned_ = false;
};

}  // namespace ddp
