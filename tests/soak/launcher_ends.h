// SPDX-License-Identifier: MIT
//
// What soak measures of ddp-launch: how its jobs end, with workers that have children, orphaned
// grandchildren and some that have left their session.
#pragma once

namespace ddp::soak {

enum class Blow {
  kRankKilled,      // kill -9 of a random rank
  kCtrlC,           // SIGINT to the launcher
  kAgentKilled,     // kill -9 of the process that is the workers' parent
  kGuardianKilled,  // kill -9 of the process that the user has started
};

struct LauncherEnd {
  double milliseconds = 0;     // from the blow until the launcher and all pids are gone
  int pids = 0;                // processes below the launcher
  int pids_left = 0;           // of these, half a minute later
  bool is_port_stuck = false;  // the store's port could not be bound again at once
};

// In every twentieth round nobody heeds SIGTERM. Throws if the launcher's exit code is not that of
// such an end.
[[nodiscard]] LauncherEnd launcher_end(Blow blow, int round);

}  // namespace ddp::soak
