// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "launcher/processes/signals.h"

namespace ddp::launcher {

using OnDeath = std::function<void(pid_t agent, const std::string& death)>;

// Runs the agent in a child process and watches over it from this process, which the user sees,
// signals and waits for:
//
//   ddp-launch, the guardian ──► the agent ──► workers ──► whatever they start
//
// Both are child subreapers, and each ends the whole job when the other dies, even by kill -9: the
// agent learns of the guardian's death from `signals` and kills everything below itself; the
// guardian inherits the agent's children and kills those. The agent has its own process group, so
// that terminal and shell signal only the guardian, which passes every signal on. It also has its
// own name and command line, so that "killall -9 ddp-launch" or "pkill -9 -f train" does not kill
// both at once.
//
// Returns the exit code in either process: what agent() returned, or 128 + the signal that killed
// it. An exception from agent() propagates in the agent's process. If a signal has killed the agent
// and everything below it is dead, the guardian calls on_death(7, "the agent (pid 7) was killed by
// SIGKILL"). Call it before there is a thread. Throws SystemError if the agent cannot be forked.
[[nodiscard]] int run_guarded(SignalReader& signals, const std::function<int()>& agent,
                              const OnDeath& on_death);

}  // namespace ddp::launcher
