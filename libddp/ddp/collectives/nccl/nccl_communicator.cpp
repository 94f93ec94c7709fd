// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_communicator.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/run_until.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

constexpr const char* kIdKey = "nccl_id";
constexpr Timeout kEndTimeout = std::chrono::seconds(10);
// A call that takes longer hangs, trying to connect to a dead rank, and is aborted while it runs.
constexpr Timeout kCallGrace = std::chrono::seconds(1);

std::string describe_group(const GroupConfig& config) {
  return fmt::format("group \"{}\" of {} ranks on rank {} ({})", config.name, config.world_size,
                     config.job_rank(config.rank), to_string(config.device));
}

ncclUniqueId exchange_id(const NcclApi& nccl, const GroupConfig& config, Deadline deadline) {
  ncclUniqueId id;
  if (config.rank == 0) {
    DDP_NCCL_CHECK(nccl, get_unique_id(&id));
    config.store->set(kIdKey, std::string_view(id.internal, sizeof id.internal));
    return id;
  }
  const std::string keys[] = {kIdKey};
  await_start(config, *config.store, keys, deadline.remaining());
  const std::string bytes = config.store->get(kIdKey);
  if (bytes.size() != sizeof id.internal) {
    throw PeerError(fmt::format("[nccl] {}: rank 0 published an id of {} bytes, not {}",
                                describe_group(config), bytes.size(), sizeof id.internal));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

// The first overrides config.blocking, the second the ids of all communicators.
void refuse_variables() {
  const char* blocking = std::getenv("NCCL_COMM_BLOCKING");
  if (blocking != nullptr && std::string_view(blocking) == "0") {
    throw std::invalid_argument(
        "[nccl] NCCL_COMM_BLOCKING=0 makes calls return before their work is on the stream, but "
        "this backend needs it there: unset the variable");
  }
  const char* meeting = std::getenv("NCCL_COMM_ID");
  if (meeting != nullptr && *meeting != '\0') {
    throw std::invalid_argument(
        fmt::format("[nccl] NCCL_COMM_ID={} makes all communicators meet at one address, but each "
                    "group makes one, and tells its ranks by the store where: unset the variable",
                    meeting));
  }
}

void close(ncclComm_t handle, NcclCommunicator::End how, Device device) noexcept {
  try {
    const bool ended = run_until(Deadline::after(kEndTimeout), [=] {
      const cu::DeviceGuard guard(device);
      how(handle);  // its result does not help any more
    });
    if (!ended) {
      logging::warning(
          fmt::format("[nccl] a communicator did not close within {} ms and is left open",
                      kEndTimeout.count()));
    }
  } catch (const std::exception& error) {
    logging::warning("[nccl] cannot close a communicator: " + describe(error));
  }
}

// A communicator that nobody uses yet. Shared with the thread that makes it, which may be done only
// after the group's start has failed; whoever lets go of it last then aborts it. NCCL may give one
// even if its making fails, and wants that aborted, too.
struct NewCommunicator {
  NewCommunicator(const NcclApi& its_nccl, Device its_device)
      : nccl(its_nccl), device(its_device) {}
  ~NewCommunicator() {
    if (handle != nullptr) close(handle, nccl.comm_abort, device);
  }
  NewCommunicator(const NewCommunicator&) = delete;
  NewCommunicator& operator=(const NewCommunicator&) = delete;

  NcclApi nccl;
  Device device;
  ncclComm_t handle = nullptr;
};

ncclComm_t connect(const NcclApi& nccl, const GroupConfig& config) {
  refuse_variables();
  const Deadline deadline = Deadline::after(config.start_timeout);
  const ncclUniqueId id = exchange_id(nccl, config, deadline);
  const auto made = std::make_shared<NewCommunicator>(nccl, config.device);
  const auto init = [made, id, rank = config.rank, world_size = config.world_size,
                     action = "connect " + describe_group(config)] {
    const cu::DeviceGuard guard(made->device);
    ncclConfig_t options = NCCL_CONFIG_INITIALIZER;
    options.blocking = 1;
    check_nccl(made->nccl,
               made->nccl.comm_init_rank_config(&made->handle, world_size, id, rank, &options),
               action);
  };
  if (connect_all(config, deadline, init)) return std::exchange(made->handle, nullptr);
  throw TimeoutError(
      fmt::format("[nccl] connect {}: not all ranks connected within {} ms. If they are on several "
                  "hosts, these must reach each other on the network that NCCL has chosen: "
                  "NCCL_DEBUG=INFO shows it, NCCL_SOCKET_IFNAME names another one, and a firewall "
                  "must let it pass",
                  describe_group(config), config.start_timeout.count()));
}

}  // namespace

NcclCommunicator::NcclCommunicator(const GroupConfig& config, const NcclApi& nccl)
    : nccl_(nccl), device_(config.device), handle_(connect(nccl_, config)) {}

ncclComm_t NcclCommunicator::open_handle() {
  const ncclComm_t handle = handle_.load();
  if (handle == nullptr) throw CudaError("[nccl] the communicator has been closed");
  return handle;
}

ncclResult_t NcclCommunicator::async_state() {
  const std::lock_guard lock(query_);
  ncclResult_t state = ncclSuccess;
  const ncclComm_t handle = handle_.load();
  if (handle != nullptr) DDP_NCCL_CHECK(nccl_, comm_get_async_error(handle, &state));
  return state;
}

void NcclCommunicator::abort() noexcept { end(nccl_.comm_abort); }

void NcclCommunicator::destroy() noexcept { end(nccl_.comm_destroy); }

void NcclCommunicator::end(End how) noexcept {
  const ncclComm_t handle = handle_.exchange(nullptr);
  if (handle == nullptr) return;
  { const std::lock_guard lock(query_); }  // a query that has the handle has ended now
  const std::unique_lock call_lock(calls_, Deadline::after(kCallGrace).time_point());
  close(handle, how, device_);
}

}  // namespace ddp
