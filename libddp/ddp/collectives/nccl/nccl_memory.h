// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/nccl/nccl_communicator.h"

namespace ddp {

// Whether memory is registered with the communicator. Behind NVSwitch that frees multiprocessors
// and saves a copy. But for each call with registered memory, NCCL (2.28, ncclShmemAllgather) then
// lets the host spin until the hosts of all ranks of the node have made the same call, without
// looking whether the communicator is aborted: a rank that has died cannot be reported any more,
// nor one whose memory could not be registered.
enum class NcclRegistration : std::uint8_t { kNever, kAlways };

// kAlways with DDP_NCCL_REGISTER=1.
[[nodiscard]] NcclRegistration nccl_registration_from_environment();

// Allocates the memory of a group. If NCCL cannot allocate or register it, one warning of the group
// says so. Thread-safe. Memory may outlive this object.
class NcclMemory {
 public:
  using BeforeRelease = std::function<void(void* memory, std::size_t size_bytes)>;

  NcclMemory(std::shared_ptr<NcclCommunicator> communicator, const GroupConfig& config,
             NcclRegistration registration);

  // Zeroed memory from ncclMemAlloc, which NCCL's fast paths need; ordinary device memory if it is
  // small or NCCL cannot allocate it. `before_release` must not throw.
  [[nodiscard]] Allocation allocate(std::size_t size_bytes, BeforeRelease before_release);

 private:
  [[nodiscard]] void* allocate_by_nccl(std::size_t size_bytes);
  [[nodiscard]] void* register_memory(void* data, std::size_t size_bytes);
  void warn_once(const char* what, std::size_t size_bytes, ncclResult_t result);

  std::shared_ptr<NcclCommunicator> communicator_;
  Device device_;
  std::string who_;
  NcclRegistration registration_;
  std::atomic<bool> has_warned_ = false;
};

}  // namespace ddp
