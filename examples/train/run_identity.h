// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/worker_env.h"

namespace train {

// What all attempts of a launcher's run have in common and other runs have not, for the checkpoints
// of a job that may be restarted; empty if the launcher restarts none.
//
// The run id is not enough: a user may choose it, and torchrun's default is "none". ddp-launch adds
// DDP_LAUNCH_ID. Of torchrun on one node, the folder of the error files is added, whose name is
// random; on several nodes rank 0 may move to another one, whose folder is another.
[[nodiscard]] std::string run_identity(
    const ddp::WorkerEnv& env = ddp::WorkerEnv::from_environment(),
    const ddp::WorkerEnv::Lookup& lookup = ::getenv);

}  // namespace train
