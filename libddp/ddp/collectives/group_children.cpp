// SPDX-License-Identifier: MIT
//
// ProcessGroup's duplicate() and split(). Ranks first meet in an operation, in which the death of
// one ends the others' waits at once; a wait in the store does not notice it.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/meeting/meeting.h"
#include "ddp/collectives/single_process_group.h"

namespace ddp {
namespace {

// The ranks of this color, by (key, rank).
std::vector<int> find_part(ProcessGroup& group, int color, int key) {
  const ScopedLabel label(group, "split");
  const std::vector<int> all = all_gather_on_host(group, std::array{color, key});
  std::vector<std::pair<int, int>> members;  // (key, rank)
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank) {
    if (all[2 * rank] == color) members.emplace_back(all[2 * rank + 1], static_cast<int>(rank));
  }
  std::ranges::sort(members);
  std::vector<int> ranks;
  for (const auto& [its_key, rank] : members) ranks.push_back(rank);
  return ranks;
}

}  // namespace

std::shared_ptr<ProcessGroup> ProcessGroup::duplicate() {
  {
    const ScopedLabel label(*this, "duplicate");
    barrier().wait_host();
  }
  std::vector<int> everybody(static_cast<std::size_t>(world_size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::shared_ptr<ProcessGroup> child;
  meet(*state_->meetings, "duplicate",
       [&] { child = make_part(fresh_name("duplicate"), everybody); });
  return child;
}

std::shared_ptr<ProcessGroup> ProcessGroup::split(int color, int key) {
  check_not_solo(*state_, "split");
  const std::string name = fresh_name("split") + "/color" + std::to_string(color);
  const std::vector<int> members = find_part(*this, color, key);
  std::shared_ptr<ProcessGroup> child;
  meet(*state_->meetings, "split", [&] {
    if (color < 0) return;
    child = members.size() == 1 ? make_single_process_group(part_config(config(), name, members))
                                : make_part(name, members);
  });
  return child;
}

// All members wait for the child's rank 0, and it waits for all of them.
std::shared_ptr<ProcessGroup> ProcessGroup::make_part(const std::string& name,
                                                      std::span<const int> members) {
  GroupConfig child = part_config(config(), name, members);
  std::vector<int> awaited(members.begin(), child.rank == 0 ? members.end() : members.begin() + 1);
  std::erase(awaited, rank());
  child.check_while_starting = [self = weak_from_this(), awaited = std::move(awaited)](
                                   const std::function<bool()>& has_come) {
    if (const auto parent = self.lock()) parent->check_on(awaited, has_come);
  };
  return start_group(std::move(child),
                     [this](GroupConfig config) { return make_child(std::move(config)); });
}

}  // namespace ddp
