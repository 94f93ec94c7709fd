// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ddp/base/device.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/hang_watch_options.h"
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

// What is left empty comes from the environment: WorkerEnv, and DDP_TIMEOUT and DDP_START_TIMEOUT,
// which are seconds.
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
  // Several ranks of the job are in this process. What a process has once is then nobody's: no rank
  // in its log lines, no error record, no step for the launcher to read.
  bool ranks_are_threads = false;
  // Where ranks on other hosts reach this one, for Gloo. If it is empty: the address of this host
  // on the connection to `master`; if there is none either, 127.0.0.1 for ranks that are threads.
  std::string address = {};
  // For all ranks to meet; DDP_START_TIMEOUT, else kDefaultStartTimeout. Above 0, as the next one.
  std::optional<Timeout> start_timeout = std::nullopt;
  // Of each collective; DDP_TIMEOUT, else kDefaultTimeout.
  std::optional<Timeout> timeout = std::nullopt;
  HangWatchOptions hang_watch = {};  // how a hang is watched for
};

// Meets the other ranks and makes the default group. Collective over all ranks of the job; all of
// them agree on the backend, or all throw the same sentence. A world of one needs no store.
//
// Ranks that do not come are named in a warning every five seconds, and in the TimeoutError that
// ends the wait. A second process with the same rank is EnvironmentError, another world size
// MismatchError, both at once.
//
// If the group's device is a CUDA device it becomes the current one of the calling thread, and
// stays it: code that names no device runs there. Other threads begin with device 0, as always.
[[nodiscard]] std::shared_ptr<ProcessGroup> init_process_group(const InitOptions& options = {});

}  // namespace ddp
