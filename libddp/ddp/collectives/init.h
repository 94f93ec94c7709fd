// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ddp/base/device.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/hang_watch.h"
#include "ddp/collectives/process_group.h"
#include "ddp/store/store.h"

namespace ddp {

// kAuto: nccl if every rank has a CUDA device, else shm on one host, gloo where no two ranks share
// a host, and otherwise both: shared memory inside each host, Gloo between the hosts.
enum class Backend { kAuto, kNccl, kShm, kGloo, kShmGloo };

[[nodiscard]] std::string_view to_string(Backend backend);
// "auto", "nccl", "shm", "gloo", "shm+gloo"; anything else is std::invalid_argument.
[[nodiscard]] Backend parse_backend(std::string_view name);

enum class DeviceChoice { kAuto, kCpu, kCuda };

// What is left empty comes from the environment (WorkerEnv).
struct InitOptions {
  Backend backend = Backend::kAuto;
  // kAuto: the CUDA device that LOCAL_RANK counts to, if this machine has any and the backend
  // does not rule it out.
  DeviceChoice device = DeviceChoice::kAuto;
  std::optional<int> rank = std::nullopt;
  std::optional<int> world_size = std::nullopt;
  std::optional<int> local_rank = std::nullopt;
  std::optional<Endpoint> master = std::nullopt;  // where the store is, or will be hosted by rank 0
  std::shared_ptr<Store> store = nullptr;         // instead of a connection to `master`
  Timeout start_timeout = kDefaultStartTimeout;   // for all ranks to meet
  Timeout timeout = kDefaultTimeout;              // of each collective
  HangWatchOptions hang_watch = {};               // how a hang is watched for
};

// Meets the other ranks and makes the default group. Collective over all ranks of the job; all of
// them agree on the backend, or all throw the same sentence. A world of one needs no store.
[[nodiscard]] std::shared_ptr<ProcessGroup> init_process_group(const InitOptions& options = {});

}  // namespace ddp
