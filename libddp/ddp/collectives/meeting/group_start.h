// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ddp/base/system/home_process.h"
#include "ddp/base/time.h"
#include "ddp/collectives/group_config.h"
#include "ddp/store/store.h"

namespace ddp {

// Makes a group by make(config), in which this rank waits for the other ranks of the group. If
// `make` fails on one rank, the others do not wait for it any longer: they throw its error as
// PeerError, or MismatchError if it is one. A TimeoutError after config.start_timeout remains the
// rank's own, since the others have the same time; a store may time out earlier.
[[nodiscard]] std::shared_ptr<ProcessGroup> start_group(
    GroupConfig config, const std::function<std::shared_ptr<ProcessGroup>(GroupConfig)>& make);

// Makes an object of a group's class. A forked child of this process does not destroy it: the
// group's threads are not there, and the other ranks would take the child's leaving for this
// rank's.
template <class Group, class... Arguments>
[[nodiscard]] std::shared_ptr<Group> make_group_object(Arguments&&... arguments) {
  const auto destroy = [home = HomeProcess()](Group* group) {
    if (home.is_here()) delete group;
  };
  return {new Group(std::forward<Arguments>(arguments)...), destroy};
}

// Waits in `store` for keys that the other ranks of a group write when they construct it. Throws
// TimeoutError after `timeout`, and what config.check_while_starting throws.
void await_start(const GroupConfig& config, Store& store, std::span<const std::string> keys,
                 Timeout timeout);

// Waits in config.store, as await_start() does, until all ranks of the group are here. A rank may
// be here once.
void await_all(const GroupConfig& config, Timeout timeout);

// Runs `connect`, which connects this rank with the others outside the store, as run_until() does,
// and then waits until all ranks have connected: so nobody who is connected leaves while another
// one is still connecting. Throws what config.check_while_starting throws; `connect` then continues
// unattended. Meanwhile it calls `look` every now and then.
[[nodiscard]] bool connect_all(
    const GroupConfig& config, Deadline deadline, std::function<void()> connect,
    const std::function<void()>& look = [] {});

}  // namespace ddp
