// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ddp/base/device.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/backend.h"
#include "ddp/collectives/hang_watch_options.h"
#include "ddp/collectives/process_group.h"
#include "ddp/store/store.h"

namespace ddp {

enum class DeviceChoice { kAuto, kCpu, kCuda };

// What is left empty comes from the environment: from WorkerEnv, DDP_TIMEOUT and DDP_START_TIMEOUT
// (both in seconds). With rank, world_size, and master or store, the environment may be that of
// another job: then only LOCAL_RANK counts, unless it has the same rank, world size and master. A
// world_size without the others must be that of the environment, or 1.
struct InitOptions {
  Backend backend = Backend::kAuto;
  // kAuto: the CUDA device whose index is LOCAL_RANK, or the only one that this process can see, or
  // the CPU if it sees none or the backend cannot use one.
  DeviceChoice device = DeviceChoice::kAuto;
  std::optional<int> rank = std::nullopt;
  std::optional<int> world_size = std::nullopt;
  std::optional<int> local_rank = std::nullopt;
  std::optional<Endpoint> master = std::nullopt;  // where the store is, or will be hosted by rank 0
  std::shared_ptr<Store> store = nullptr;         // instead of a connection to `master`
  // Set it if several ranks of the job are threads of this process. What exists once in a process
  // then belongs to no rank: log lines carry no rank, no error record is written, and the launcher
  // is not told of steps.
  bool ranks_are_threads = false;
  // The address at which ranks on other hosts reach this one, for tcp. If empty: the address of
  // this host on the connection to `master`; without such a connection, 127.0.0.1 for ranks that
  // are threads.
  std::string address = {};
  // How long to wait for all ranks to meet; default DDP_START_TIMEOUT, else kDefaultStartTimeout.
  // Above 0, as is the next one.
  std::optional<Timeout> start_timeout = std::nullopt;
  // The timeout of each collective; default DDP_TIMEOUT, else kDefaultTimeout.
  std::optional<Timeout> timeout = std::nullopt;
  HangWatchOptions hang_watch = {};
};

// Meets the other ranks and makes the default group. Collective over all ranks of the job: all of
// them agree on the backend, or all throw an error with the same text. A world of one needs no
// store.
//
// Missing ranks are named in a warning every five seconds, and in the TimeoutError that ends the
// wait. A second process with the same rank causes an EnvironmentError, a different world size a
// MismatchError, both without waiting for the timeout.
//
// If the group's device is a CUDA device, it becomes and stays the current device of the calling
// thread, so that code that names no device runs there. Other threads still begin with device 0.
[[nodiscard]] std::shared_ptr<ProcessGroup> init_process_group(const InitOptions& options = {});

}  // namespace ddp
