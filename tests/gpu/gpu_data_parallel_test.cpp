// SPDX-License-Identifier: MIT
//
// One process on several devices. A GPU may appear only once among them, so these are a GPU and the
// CPU, and two GPUs on machines that have two.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "support/data_parallel_training.h"

using namespace ddp;
using test::largest_difference;
using test::LossOn;
using test::train_on;

namespace {

void check_trains_as_the_cpu(const test::DataParallelPlaces& places, std::size_t samples) {
  INFO("home " << to_string(places.devices[places.home]) << ", output " << to_string(places.output)
               << ", " << samples << " samples");
  for (const LossOn where : {LossOn::kOutputDevice, LossOn::kEachDevice}) {
    const auto alone = train_on({.devices = {kCpuDevice}}, samples, where);
    CHECK(largest_difference(alone, train_on(places, samples, where)) < 1e-12);
  }
}

// With the module on each of these devices, and the outputs on each of them and on the CPU. The
// devices have different numbers of samples; once as many.
void check_all_places(const std::vector<Device>& devices) {
  std::vector<Device> outputs = devices;
  if (std::ranges::count(devices, kCpuDevice) == 0) outputs.push_back(kCpuDevice);
  for (std::size_t home = 0; home < devices.size(); ++home) {
    for (const Device output : outputs) {
      check_trains_as_the_cpu({.devices = devices, .home = home, .output = output}, 7);
    }
  }
  check_trains_as_the_cpu({.devices = devices, .output = devices.front()}, 12);
}

}  // namespace

TEST_CASE("DataParallel on a GPU and the CPU trains like the CPU alone", "[gpu][data-parallel]") {
  check_all_places({cuda_device(0), kCpuDevice});
  check_all_places({kCpuDevice, cuda_device(0)});
}

TEST_CASE("DataParallel on two GPUs trains like the CPU alone", "[gpu][data-parallel][multi_gpu]") {
  if (cu::device_count() < 2) {
    WARN("SKIPPED: there is one GPU");
    return;
  }
  check_all_places({cuda_device(0), cuda_device(1)});
}
