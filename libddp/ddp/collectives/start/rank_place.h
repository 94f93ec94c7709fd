// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/worker_env.h"
#include "ddp/collectives/init.h"

namespace ddp {

// Which rank this one is, of how many, and where the store is: from the options and, for what they
// leave empty, from the environment as InitOptions tells. Throws std::invalid_argument if the
// options contradict it or each other, EnvironmentError if the environment is wrong or lacks
// something.
[[nodiscard]] WorkerEnv place_of_rank(const InitOptions& options);

}  // namespace ddp
