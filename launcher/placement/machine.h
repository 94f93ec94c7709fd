// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/placement/cpu_list.h"
#include "launcher/placement/gpu_inventory.h"

namespace ddp::launcher {

// What placement decisions need to know of the machine; tests make their own.
struct Machine {
  // Takes milliseconds if there is a driver, so it is called only if the answer matters.
  std::function<GpuInventory()> find_gpus;
  std::optional<std::string> cuda_visible_devices;  // as the workers will see it
  int usable_cpus = 1;                              // allowed ones within the quota
  CpuList allowed_cpus = {};
  std::string sysfs = "/sys";
};

}  // namespace ddp::launcher
