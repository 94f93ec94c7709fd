// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "engine/parts.h"
#include "engine/subject.h"
#include "support/report.h"
#include "support/simulated_group.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr double kPromiseUs = 0.1;
constexpr double kLaunchPromiseUs = 15;

struct Case {
  const char* name;
  std::shared_ptr<ProcessGroup> group;
  std::chrono::microseconds pause;
};

std::string with_spread(const std::vector<double>& samples) {
  const Summary summary = summarize(samples);
  return fmt::format("{:.3f} {:3.0f}%", summary.median, summary.spread_percent());
}

}  // namespace

void measure_host_time(int rounds) {
  fmt::print(
      "\n# Host time, us a call: {} parameters of {} KiB in buckets of {} KiB; medians of {} "
      "steps, the most allocations of any. Promised: mark_ready {}, with a launch {}, none\n",
      HostTimeSubject::kParameters, HostTimeSubject::kParameterBytes >> 10,
      HostTimeSubject::kBucketBytes >> 10, rounds, kPromiseUs, kLaunchPromiseUs);
  const Table table({{"group", 28},
                     {"begin_step", 11},
                     {"mark_ready", 11},
                     {"with launch", 11},
                     {"allocations", 11}});
  table.print_titles();
  const SimulatedLink instant{.latency = 0ns, .bytes_per_second = 1e15};
  const SimulatedLink slow{.latency = 1ms, .bytes_per_second = 1e15};
  for (const Case& each :
       {Case{"alone", init_process_group({.device = DeviceChoice::kCpu}), 0us},
        Case{"2 ranks, its thread asleep", make_simulated_group(instant, 2), 200us},
        Case{"2 ranks, its thread busy", make_simulated_group(slow, 2), 0us}}) {
    const HostTimes times = HostTimeSubject(each.group, each.pause).measure(rounds);
    table.print_row(
        {each.name, with_spread(times.begin_step), with_spread(times.mark_ready),
         with_spread(times.launching),
         fmt::format("{}", *std::max_element(times.allocations.begin(), times.allocations.end()))});
  }
}

}  // namespace ddp::bench
