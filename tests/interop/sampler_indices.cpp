// SPDX-License-Identifier: MIT
//
// Reads lines "dataset_size world_size rank seed epoch shuffle drop_last", ignoring what follows a
// colon, and prints each with the indices that DistributedSampler deals to that rank:
//   10 4 0 0 0 1 0 : 4 3 6
#include <iostream>
#include <sstream>
#include <string>

#include "ddp/samplers/distributed_sampler.h"

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::string text = line.substr(0, line.find(" :"));
    std::istringstream fields(text);
    ddp::DistributedSamplerOptions options{.dataset_size = 0, .world_size = 1, .rank = 0};
    std::int64_t dataset_size = 0, epoch = 0;
    int world_size = 0, rank = 0;
    fields >> dataset_size >> world_size >> rank >> options.seed >> epoch >> options.shuffle >>
        options.drop_last;
    options.dataset_size = dataset_size;
    options.world_size = world_size;
    options.rank = rank;
    if (!fields) {
      std::cerr << "sampler_indices: not seven numbers: " << text << '\n';
      return 2;
    }
    std::cout << text << " :";
    const ddp::DistributedSampler sampler(options);
    for (const std::int64_t index : sampler.plan({.epoch = epoch, .consumed = 0}).indices()) {
      std::cout << ' ' << index;
    }
    std::cout << '\n';
  }
  return 0;
}
