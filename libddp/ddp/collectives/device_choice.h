// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/device.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/init.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// This rank's device. CUDA is not asked, which takes time, where the options rule it out. Throws
// std::invalid_argument if the options contradict each other, EnvironmentError if the device that
// they ask for is not there.
[[nodiscard]] Device choose_device(const InitOptions& options, const WorkerEnv& env);

// The same where these devices are found. If the choice was left to us and falls on the CPU, rank 0
// says why: as a warning if CUDA should work and does not, and otherwise as information.
[[nodiscard]] Device choose_device(const InitOptions& options, const WorkerEnv& env,
                                   const cu::DeviceSurvey& survey);

}  // namespace ddp
