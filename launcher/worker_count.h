// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/gpu_count.h"
#include "launcher/options.h"

namespace ddp::launcher {

// What the decision needs to know of the machine. `find_gpus` costs milliseconds where there is a
// driver, so it is called only if the answer matters.
struct Machine {
  std::function<GpuInventory()> find_gpus;
  std::optional<std::string> cuda_visible_devices;
  int usable_cpus = 1;
};

struct WorkerCount {
  int workers = 1;
  std::string remark;  // one sentence for the user, or empty
};

// Turns the request into a number. More workers than GPUs earn a remark, not a refusal: the
// program may not use GPUs at all, and libddp refuses two ranks on one GPU itself.
// Throws LaunchError if GPUs are asked for and none is visible.
[[nodiscard]] WorkerCount decide_worker_count(const WorkerRequest& request, const Machine& machine);

}  // namespace ddp::launcher
