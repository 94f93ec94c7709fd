// SPDX-License-Identifier: MIT
//
// What a launcher that cannot take part tells the others. It takes a second at most if there is no
// store; another job's stays untouched.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/launch_error.h"
#include "launcher/nodes/node_plan.h"

namespace ddp::launcher {

// Those that already wait say that this host was refused, and why.
void tell_refusal(const NodePlan& plan, const std::string& host,
                  const LaunchError& reason) noexcept;
// For a launcher that has lost its agent, after that has met the others: they end the job with that
// sentence.
void tell_loss(const NodePlan& plan, const std::string& host, pid_t agent,
               const std::string& sentence) noexcept;

}  // namespace ddp::launcher
