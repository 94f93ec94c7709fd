// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/base/error_record.h"
#include "ddp/base/system/worker_slot.h"
#include "ddp/base/time.h"
#include "ddp/collectives/process_group.h"
#include "ddp/store/store.h"

namespace ddp {

class HangWatch;
class OperationLabels;
class SoloCalls;

// What a process has once for all groups of a job.
struct JobParts {
  std::shared_ptr<HangWatch> hang_watch = nullptr;  // null: nobody watches the group
  std::shared_ptr<SoloCalls> solo_calls = nullptr;  // null: the group makes its own, as is the next
  std::shared_ptr<OperationLabels> labels = nullptr;
};

// Where the launcher of this process reads how it fares; both say nothing if it has none.
struct LauncherLink {
  ErrorFile error_file = {};  // what breaks the group
  WorkerSlot worker_slot = {};
};

// What makes a group, apart from the backend. Ranks 0 .. world_size-1 construct it together.
struct GroupConfig {
  std::shared_ptr<Store> store;  // has a prefix under which only this group writes
  // Another connection to the same keys, which the background threads of all groups of a process
  // share to publish and query; no thread waits for a key on it. If null, `store` is cloned.
  std::shared_ptr<Store> background_store = nullptr;
  int rank = 0;
  int world_size = 1;
  Device device = kCpuDevice;
  Timeout timeout = kDefaultTimeout;             // of every wait for the other ranks
  Timeout start_timeout = kDefaultStartTimeout;  // for all ranks to construct the group
  std::string name = "default";
  std::string part = {};            // in the file of events: which part of the group of this name
  std::vector<int> job_ranks = {};  // by rank in the group; empty: the same
  JobParts job = {};                // shared with the groups that are made from this one
  LauncherLink launcher = {};
  // If set, called every now and then while this rank waits for the others to construct the group.
  // Throws if it waits in vain; see ProcessGroup::check_on() for `has_come`.
  std::function<void(const std::function<bool()>& has_come)> check_while_starting = nullptr;

  [[nodiscard]] int job_rank(int group_rank) const {
    return job_ranks.empty() ? group_rank : job_ranks[static_cast<std::size_t>(group_rank)];
  }
};

// What makes a group of the ranks `members` of another group, this rank among them: the same but
// for its ranks and `name`, under which it writes to the store.
[[nodiscard]] GroupConfig part_config(const GroupConfig& whole, const std::string& name,
                                      std::span<const int> members);

}  // namespace ddp
