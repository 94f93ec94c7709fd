// SPDX-License-Identifier: MIT
//
// The measurements of ddp-launch by soak: how its jobs end if workers have children, orphaned
// grandchildren, and children in other sessions.
#pragma once

namespace ddp::soak {

enum class Blow {
  kRankKilled,      // kill -9 of a random rank
  kCtrlC,           // SIGINT to the launcher
  kAgentKilled,     // kill -9 of the process that is the workers' parent
  kGuardianKilled,  // kill -9 of the process that the user has started
};

struct LauncherEnd {
  double milliseconds = 0;     // from the signal until the launcher and all pids are gone
  int pids = 0;                // processes below the launcher
  int pids_left = 0;           // of these, still alive half a minute later
  bool is_port_stuck = false;  // the store's port could not be bound again at once
};

// In every twentieth round, all processes ignore SIGTERM. Throws if the launcher's exit code does
// not match the way in which the job ended.
[[nodiscard]] LauncherEnd launcher_end(Blow blow, int round);

}  // namespace ddp::soak
