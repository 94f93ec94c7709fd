// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/group_config.h"
#include "ddp/collectives/peers/host_layout.h"
#include "ddp/collectives/queue/queued_process_group.h"

namespace ddp {

// The groups of one rank in a world of several hosts. Each group counts its ranks from 0, in the
// order of HostLayout.
struct HostGroups {
  std::shared_ptr<ProcessGroup> inside;         // "self" for a rank that is alone on its host
  std::shared_ptr<QueuedProcessGroup> fellows;  // the same; null for a rank that is alone
  std::shared_ptr<QueuedProcessGroup> leaders;  // null on a rank that leads no host
  std::shared_ptr<QueuedProcessGroup> flat;     // all ranks

  void abort(const std::string& reason) const;
  // Breaks the group inside the host if the one of all ranks is broken: a rank that waits for
  // transfers inside its host would not see that those between hosts have failed.
  void spread_failure() const;
  // Ranks of the job whose data this rank waits for between hosts: see HangContact.
  [[nodiscard]] std::vector<int> awaited() const;
  // True once the threads of all groups no longer touch any operand.
  [[nodiscard]] bool wait_idle(Timeout timeout) const;
  // True once they no longer touch this memory.
  [[nodiscard]] bool wait_released(const Buffer& memory, Timeout timeout) const;
};

// Collective over the ranks of `config`; `address` as for tcp.
[[nodiscard]] HostGroups make_host_groups(const GroupConfig& config, const HostLayout& layout,
                                          const std::string& address);

}  // namespace ddp
