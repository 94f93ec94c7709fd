// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "engine/device_parts.h"
#include "engine/subject.h"
#include "support/simulated_device_group.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

void measure(const std::string& name, const std::shared_ptr<ProcessGroup>& group, int rounds) {
  const HostTimes times = HostTimeSubject(group).measure(rounds);
  if (group->rank() != 0) return;
  const Labels labels = {{"group", name},
                         {"parameters", static_cast<double>(HostTimeSubject::kParameters)},
                         {"buckets_kib", static_cast<double>(HostTimeSubject::kBucketBytes >> 10)}};
  print_figure({"host time of begin_step", "us", labels}, times.begin_step);
  print_figure({"host time of mark_ready", "us", labels}, times.mark_ready);
  print_figure({"host time of mark_ready with a launch", "us", labels}, times.launching);
  print_figure({"host time of wait", "us", labels}, times.wait);
  print_figure({"host time of the engine in a step", "us", labels}, times.step);
  const auto most = *std::max_element(times.allocations.begin(), times.allocations.end());
  print_count({"most allocations of the engine in a step", "allocations", labels},
              static_cast<double>(most));
}

}  // namespace

void measure_device_host_time(int rounds) {
  const std::shared_ptr<ProcessGroup> group = init_process_group({.device = DeviceChoice::kCuda});
  const int ranks = group->world_size();
  if (ranks > 1) {
    measure(std::to_string(ranks) + " ranks, NCCL", group, rounds);
    const std::vector<double> of_nccl = nccl_launch_times(*group, rounds);
    if (group->rank() != 0) return;
    const auto kib = static_cast<double>(HostTimeSubject::kBucketBytes >> 10);
    return print_figure({"host time of ncclAllReduce alone",
                         "us",
                         {{"group", std::to_string(ranks) + " ranks, NCCL"}, {"kib", kib}}},
                        of_nccl);
  }
  measure("alone", group, rounds);
  const SimulatedLink instant{.latency = 0ns, .bytes_per_second = 1e15};
  measure("2 ranks, simulated: a kernel a bucket",
          make_simulated_device_group(instant, 1, 2, cuda_device(0)), rounds);
}

}  // namespace ddp::bench
