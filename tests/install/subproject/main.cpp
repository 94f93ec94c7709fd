// SPDX-License-Identifier: MIT
#include <ddp/collectives/process_group.h>
#include <ddp/samplers/exact_sampler.h>

#include <cstdio>

int main() {
  ddp::ExactSampler sampler(
      {.dataset_size = 5, .world_size = 1, .rank = 0, .global_batch_size = 2});
  std::printf("%d steps\n", static_cast<int>(sampler.next_epoch().steps()));
}
