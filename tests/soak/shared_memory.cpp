// SPDX-License-Identifier: MIT
#include "soak/shared_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace ddp::soak {
namespace {

double shmem_mebibytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  for (double kibibytes = 0; meminfo >> name >> kibibytes; meminfo.ignore(64, '\n')) {
    if (name == "Shmem:") return kibibytes / 1024;
  }
  throw std::runtime_error("/proc/meminfo tells no Shmem");
}

}  // namespace

SharedMemory shared_memory_of_host() {
  SharedMemory result{.mebibytes = shmem_mebibytes(), .names = {}};
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    result.names.insert(entry.path().filename());
  }
  return result;
}

std::size_t count_new_names(const SharedMemory& before, const SharedMemory& after) {
  return static_cast<std::size_t>(
      std::count_if(after.names.begin(), after.names.end(),
                    [&](const std::string& name) { return !before.names.contains(name); }));
}

}  // namespace ddp::soak
