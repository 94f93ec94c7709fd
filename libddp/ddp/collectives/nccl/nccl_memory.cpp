// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_memory.h"

#include <fmt/core.h>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/release_when_idle.h"

namespace ddp {
namespace {

// ncclMemAlloc rounds sizes up to 2 MiB, and before NCCL 2.25 to as much as 512 MiB on GPUs behind
// NVSwitch. Registration speeds up large messages only.
constexpr std::size_t kLeastRegistered = std::size_t{1} << 20;

// Null if NCCL cannot register it: operations then use NCCL's own buffers.
void* register_memory(NcclCommunicator& communicator, void* data, std::size_t size_bytes) {
  void* registration = nullptr;
  try {
    communicator.call([&](ncclComm_t comm) {
      DDP_NCCL_CHECK(communicator.api(), comm_register(comm, data, size_bytes, &registration));
    });
  } catch (const CudaError& error) {
    logging::info(
        fmt::format("[nccl] {} bytes of memory stay unregistered: {}", size_bytes, error.what()));
  }
  return registration;
}

void deregister_memory(NcclCommunicator& communicator, void* registration) {
  if (registration == nullptr) return;
  try {
    communicator.call([&](ncclComm_t comm) {
      DDP_NCCL_CHECK(communicator.api(), comm_deregister(comm, registration));
    });
  } catch (const CudaError& error) {
    logging::debug(error.what());  // a closed communicator has no registrations any more
  }
}

// Null if NCCL cannot, for example in a container that forbids what it needs to share memory.
void* allocate_by_nccl(const NcclApi& nccl, std::size_t size_bytes) {
  void* data = nullptr;
  const ncclResult_t result = nccl.mem_alloc(&data, size_bytes);
  if (result == ncclSuccess) return data;
  logging::info(
      fmt::format("[nccl] {} bytes are plain device memory, since NCCL could not allocate them: {}",
                  size_bytes, error_text(nccl, result)));
  return nullptr;
}

Allocation allocate_plain(std::size_t size_bytes, Device device,
                          const std::function<void()>& before_release) {
  const auto memory = std::make_shared<Allocation>(cu::allocate_device(size_bytes, device));
  return {memory->data(), size_bytes, [memory, before_release](void*) { before_release(); }};
}

// Deregisters first, since NCCL must not know an address that is freed.
void release_memory(NcclCommunicator& communicator, void* data, void* registration) noexcept {
  try {
    deregister_memory(communicator, registration);
    DDP_NCCL_CHECK(communicator.api(), mem_free(data));
  } catch (const std::exception& error) {
    logging::warning(describe(error));
  }
}

void zero(const Allocation& allocation, Device device) {
  const cu::OwnedStream stream(device);
  cu::fill({allocation.data(), allocation.size_bytes(), DType::kUInt8, device}, 0, stream.view());
  stream.synchronize();
}

}  // namespace

Allocation allocate_registered(std::shared_ptr<NcclCommunicator> communicator,
                               std::size_t size_bytes, Device device,
                               std::function<void()> before_release) {
  if (size_bytes == 0) return {};
  const cu::DeviceGuard guard(device);
  const bool is_large = size_bytes >= kLeastRegistered;
  void* data = is_large ? allocate_by_nccl(communicator->api(), size_bytes) : nullptr;
  if (data == nullptr) return allocate_plain(size_bytes, device, before_release);
  void* registration = register_memory(*communicator, data, size_bytes);
  // ncclMemFree does not wait for the device, and kernels may still use the memory.
  Allocation allocation(data, size_bytes, [=](void* memory) {
    before_release();
    cu::release_when_idle(device, [communicator, memory, registration] {
      release_memory(*communicator, memory, registration);
    });
  });
  zero(allocation, device);
  return allocation;
}

}  // namespace ddp
