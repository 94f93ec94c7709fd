// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/env_reader.h"
#include "launcher/options/options.h"
#include "launcher/placement/machine.h"

namespace ddp::launcher {

struct WorkerCount {
  int workers = 1;
  std::string remark;  // one sentence for the user, or empty
};

// Turns the request into a number. More workers than GPUs cause a remark, unless they are meant to
// share them, but no error: the program may not use GPUs at all, and libddp itself refuses two
// ranks on one GPU. Throws LaunchError if GPUs are asked for and none is visible.
[[nodiscard]] WorkerCount decide_worker_count(const WorkerRequest& request, const Machine& machine,
                                              bool may_share_gpus = false);

// A remark if mpirun has bound this launcher to fewer CPUs than it has workers, as it does by
// default; else empty.
[[nodiscard]] std::string remark_on_bound_launcher(int workers, const CpuList& allowed,
                                                   const EnvReader::Lookup& environment);

}  // namespace ddp::launcher
