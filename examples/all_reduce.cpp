// SPDX-License-Identifier: MIT
//
// The smallest program: every rank holds its rank + 1, all of them end with the sum.
//   ddp-launch --nproc_per_node=4 build/bin/all_reduce
#include <ddp/ddp.h>

#include <cstdio>

int main() {
  try {
    const auto group = ddp::init_process_group();

    const ddp::Allocation memory = group->allocate(sizeof(float));
    const ddp::Buffer value{memory.data(), 1, ddp::DType::kFloat32, group->device()};
    ddp::fill(value, group->rank() + 1);

    group->all_reduce(value).wait();

    if (group->rank() == 0) {
      std::printf("%d ranks on %s: the sum is %g\n", group->world_size(),
                  to_string(group->device()).c_str(), ddp::item(value));
    }
    return 0;
  } catch (const std::exception& error) {
    ddp::record_error(error);
    std::fprintf(stderr, "all_reduce: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
