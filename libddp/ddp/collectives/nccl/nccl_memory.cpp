// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_memory.h"

#include <fmt/core.h>

#include <cstdlib>
#include <utility>

#include "ddp/base/env_reader.h"
#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/release_when_idle.h"

namespace ddp {
namespace {

// ncclMemAlloc rounds sizes up to 2 MiB. Registration speeds up large messages only.
constexpr std::size_t kLeastRegistered = std::size_t{1} << 20;
// Before this version it rounds up to as much as 512 MiB on GPUs behind NVSwitch, which memory that
// will not be registered is not worth.
constexpr int kFrugal = NCCL_VERSION(2, 25, 0);

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

Allocation allocate_plain(std::size_t size_bytes, Device device,
                          const NcclMemory::BeforeRelease& before_release) {
  const auto memory = std::make_shared<Allocation>(cu::allocate_device(size_bytes, device));
  return {memory->data(), size_bytes,
          [memory, before_release](void* data) { before_release(data, memory->size_bytes()); }};
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

NcclRegistration nccl_registration_from_environment() {
  return EnvReader(::getenv).flag("DDP_NCCL_REGISTER") ? NcclRegistration::kAlways
                                                       : NcclRegistration::kNever;
}

NcclMemory::NcclMemory(std::shared_ptr<NcclCommunicator> communicator, const GroupConfig& config,
                       NcclRegistration registration)
    : communicator_(std::move(communicator)),
      device_(config.device),
      who_(fmt::format("group \"{}\" on rank {}", config.name, config.job_rank(config.rank))),
      registration_(registration) {}

Allocation NcclMemory::allocate(std::size_t size_bytes, BeforeRelease before_release) {
  if (size_bytes == 0) return {};
  const cu::DeviceGuard guard(device_);
  const bool is_frugal = communicator_->api().version >= kFrugal;
  const bool by_nccl =
      size_bytes >= kLeastRegistered && (is_frugal || registration_ == NcclRegistration::kAlways);
  void* data = by_nccl ? allocate_by_nccl(size_bytes) : nullptr;
  if (data == nullptr) return allocate_plain(size_bytes, device_, before_release);
  void* registration = register_memory(data, size_bytes);
  // ncclMemFree does not wait for the device, and kernels may still use the memory.
  Allocation allocation(data, size_bytes,
                        [before_release = std::move(before_release), size_bytes, registration,
                         device = device_, communicator = communicator_](void* memory) {
                          before_release(memory, size_bytes);
                          cu::release_when_idle(device, [communicator, memory, registration] {
                            release_memory(*communicator, memory, registration);
                          });
                        });
  zero(allocation, device_);
  return allocation;
}

// Null if NCCL cannot, for example in a container that forbids what it needs to share memory.
void* NcclMemory::allocate_by_nccl(std::size_t size_bytes) {
  void* data = nullptr;
  const ncclResult_t result = communicator_->api().mem_alloc(&data, size_bytes);
  if (result == ncclSuccess) return data;
  warn_once("NCCL could not allocate memory, which is ordinary device memory instead", size_bytes,
            result);
  return nullptr;
}

// Null if it is not registered: operations then use NCCL's own buffers.
void* NcclMemory::register_memory(void* data, std::size_t size_bytes) {
  if (registration_ == NcclRegistration::kNever) return nullptr;
  void* registration = nullptr;
  ncclResult_t result = ncclSuccess;
  try {
    communicator_->call([&](ncclComm_t comm) {
      result = communicator_->api().comm_register(comm, data, size_bytes, &registration);
    });
  } catch (const CudaError& error) {
    logging::debug(error.what());  // the communicator is closed, so it has no operations either
  }
  if (result == ncclSuccess) return registration;
  warn_once("memory is not registered with NCCL", size_bytes, result);
  return nullptr;
}

void NcclMemory::warn_once(const char* what, std::size_t size_bytes, ncclResult_t result) {
  if (has_warned_.exchange(true)) return;
  logging::warning(
      fmt::format("[nccl] {}: {} ({} bytes): {}; so large collectives copy through NCCL's own "
                  "buffers, which is slower (said once)",
                  who_, what, size_bytes, error_text(communicator_->api(), result)));
}

}  // namespace ddp
