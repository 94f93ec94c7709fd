// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/cpu_list.h"
#include "launcher/gpu_inventory.h"

namespace ddp::launcher {

// What decisions about workers need to know of the machine; tests make their own.
struct Machine {
  // Costs milliseconds where there is a driver, so it is called only if the answer matters.
  std::function<GpuInventory()> find_gpus;
  std::optional<std::string> cuda_visible_devices;  // as the workers will find it
  int usable_cpus = 1;                              // allowed ones within the quota
  CpuList allowed_cpus = {};
  std::string sysfs = "/sys";
};

}  // namespace ddp::launcher
