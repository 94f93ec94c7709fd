// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "launcher/signals.h"

namespace ddp::launcher {

// Runs the agent in a child process and watches over it from this one, which is the process that
// the user sees, signals and waits for:
//
//   ddp-launch, the guardian ──► the agent ──► workers ──► whatever they start
//
// Both are child subreapers, and each ends the whole job when the other dies, be it by kill -9: the
// agent learns it from `signals` and kills everything below it; the guardian then inherits whatever
// was below the agent, and kills that. The agent has a process group of its own, so that terminal
// and shell reach the guardian alone, which passes every signal on; and a name and a command line
// of its own, so that "killall -9 ddp-launch" or "pkill -9 -f train" does not kill both at once.
//
// Returns the exit code in either process: what agent() returned, or 128 + the signal that killed
// it. Whatever agent() throws comes out in the agent's process. Call it before there is a thread.
// Throws SystemError if the agent cannot be forked.
[[nodiscard]] int run_guarded(SignalReader& signals, const std::function<int()>& agent);

}  // namespace ddp::launcher
