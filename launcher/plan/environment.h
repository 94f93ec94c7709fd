// SPDX-License-Identifier: MIT
#pragma once

#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {

// The environment of one worker: torchrun's contract over what the plan inherits (to_environment()
// in ddp/base/worker_env.h), with OMP_NUM_THREADS and CUDA variables from the worker's placement.
// TORCHELASTIC_ERROR_FILE is the file for its error record, DDP_WORKER_SLOTS for what it notes
// (ddp/base/system/worker_slot.h), DDP_CRASH_FILE for its crash record
// (ddp/base/system/crash_record.h). DDP_LAUNCH_TTY tells rank 0 to draw a progress bar although its
// stdout is a pipe, and how wide it may be. With `oversubscribe`, it also has what NCCL needs to
// let ranks share a GPU, unless inherited.
[[nodiscard]] EnvironmentBlock worker_environment(const WorkerPlan& plan, const JobLayout& layout,
                                                  const Attempt& attempt, int local_rank);

// The part of a worker's environment that its launcher sets, or would set if it were not inherited.
[[nodiscard]] EnvironmentBlock contract_entries(const WorkerPlan& plan, const JobLayout& layout,
                                                const Attempt& attempt, int local_rank);

// The threads of a worker that is not bound to CPUs.
[[nodiscard]] int omp_threads_per_worker(const WorkerPlan& plan, const JobLayout& layout);

}  // namespace ddp::launcher
