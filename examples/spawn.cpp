// SPDX-License-Identifier: MIT
//
// Ranks without a launcher: the program forks them itself.
//   build/bin/spawn
#include <ddp/ddp.h>

#include <cstdio>
#include <exception>
#include <span>

int main() {
  try {
    ddp::spawn(
        [](int rank) {
          const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
          float value = static_cast<float>(rank + 1);
          group->all_reduce(ddp::buffer_of(std::span(&value, 1))).wait();
          if (rank == 0) std::printf("%d ranks: the sum is %g\n", group->world_size(), value);
        },
        4);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spawn: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
