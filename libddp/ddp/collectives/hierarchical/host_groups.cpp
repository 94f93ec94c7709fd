// SPDX-License-Identifier: MIT
#include "ddp/collectives/hierarchical/host_groups.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/single_process_group.h"
#include "ddp/collectives/tcp/tcp_process_group.h"

namespace ddp {
namespace {

// The configuration of a group of some ranks that only this group uses, and whose name it has in
// messages; it is neither watched nor recorded.
GroupConfig inner_config(const GroupConfig& config, const std::string& name,
                         std::span<const int> ranks) {
  GroupConfig inner = part_config(config, name, ranks);
  inner.name = config.name;
  inner.part = name;
  inner.job = {.labels = config.job.labels};
  inner.launcher = {};
  return inner;
}

std::shared_ptr<QueuedProcessGroup> make_shared(const GroupConfig& config, GroupConfig inside,
                                                const std::vector<int>& fellows) {
  try {
    return make_shm_process_group(std::move(inside));
  } catch (const Error&) {
    std::throw_with_nested(
        EnvironmentError("[shm+tcp] " + GroupNames(config).ranks(fellows) +
                         " cannot share memory; choose tcp (InitOptions::backend), or"));
  }
}

}  // namespace

void HostGroups::abort(const std::string& reason) const {
  inside->abort(reason);
  if (leaders) leaders->abort(reason);
  flat->abort(reason);
}

void HostGroups::spread_failure() const {
  if (flat->is_broken()) inside->abort("a transfer between hosts failed");
}

std::vector<int> HostGroups::awaited() const {
  std::vector<int> ranks = flat->awaited();
  if (leaders) std::ranges::copy(leaders->awaited(), std::back_inserter(ranks));
  return ranks;
}

bool HostGroups::wait_idle(Timeout timeout) const {
  return flat->wait_idle(timeout) && (!leaders || leaders->wait_idle(timeout)) &&
         (!fellows || fellows->wait_idle(timeout));
}

bool HostGroups::wait_released(const Buffer& memory, Timeout timeout) const {
  return flat->wait_released(memory, timeout) &&
         (!leaders || leaders->wait_released(memory, timeout)) &&
         (!fellows || fellows->wait_released(memory, timeout));
}

// The group of all ranks is made first: its ranks are the caller's, so its errors about an
// unreachable network name the right ranks. At the end all ranks wait for each other, so that one
// that has left did not leave while another one waited for it.
HostGroups make_host_groups(const GroupConfig& config, const HostLayout& layout,
                            const std::string& address) {
  const HostLayout::Place self = layout.place(config.rank);
  std::vector<int> everybody(layout.places.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  HostGroups groups;
  groups.flat = make_tcp_process_group(inner_config(config, "flat", everybody), address);
  if (self.local_rank == 0) {
    const GroupConfig leaders = inner_config(config, "leaders", layout.leaders());
    groups.leaders = make_tcp_process_group(leaders, address);
  }
  const std::vector<int>& fellows = layout.members[static_cast<std::size_t>(self.host)];
  GroupConfig inside = inner_config(config, "host" + std::to_string(self.host), fellows);
  if (fellows.size() == 1) {
    groups.inside = make_single_process_group(std::move(inside));
  } else {
    groups.inside = groups.fellows = make_shared(config, std::move(inside), fellows);
  }
  await_all(config, config.start_timeout);
  return groups;
}

}  // namespace ddp
