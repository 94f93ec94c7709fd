// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/device.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/init.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// This rank's device. Does not initialise CUDA, which takes time, if the options rule it out.
// Throws std::invalid_argument if the options contradict each other, EnvironmentError if the
// requested device does not exist.
[[nodiscard]] Device choose_device(const InitOptions& options, const WorkerEnv& env);

// As above, for a given survey of devices. If kAuto falls on the CPU, rank 0 logs why: as a warning
// if CUDA should work and does not, otherwise as information.
[[nodiscard]] Device choose_device(const InitOptions& options, const WorkerEnv& env,
                                   const cu::DeviceSurvey& survey);

}  // namespace ddp
