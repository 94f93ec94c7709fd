// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ddp/ddp.h"
#include "engine/parts.h"
#include "support/allocation_counter.h"
#include "support/program.h"
#include "support/report.h"
#include "support/simulated_group.h"
#include "support/simulated_model.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kParameters = 148;  // as many as GPT-2 small has
constexpr std::size_t kParameterBytes = 64 << 10;
constexpr std::size_t kBucketBytes = 1 << 20;
constexpr double kPromiseUs = 0.1;
constexpr double kLaunchPromiseUs = 15;

// Microseconds, but for the last.
struct HostTimes {
  std::vector<double> begin_step;
  std::vector<double> mark_ready;  // that leaves its bucket waiting for others
  std::vector<double> launching;   // that launches a bucket
  std::vector<std::int64_t> allocations;
};

class Subject {
 public:
  // Before each launch backward goes on for `pause`.
  Subject(std::shared_ptr<ProcessGroup> group, std::chrono::microseconds pause)
      : pause_(pause),
        values_(kParameters, std::vector<float>(kParameterBytes / sizeof(float))),
        ddp_(std::move(group), parameters_of(values_),
             {.buckets = {.bucket_bytes_cap = kBucketBytes}, .fold_scale = true}) {}

  void step(HostTimes& times) {
    const std::int64_t allocations = test::allocations();
    const double begin_us = microseconds_of([&] { (void)ddp_.begin_step(); });
    double mark_us = 0, launch_us = 0;
    for (const BucketSpec& bucket : ddp_.layout().buckets) {
      mark_us += microseconds_of([&] {
        for (std::size_t i = 0; i + 1 < bucket.parameters.size(); ++i) {
          ddp_.mark_ready(bucket.parameters[i]);
        }
      });
      if (pause_ > 0us) std::this_thread::sleep_for(pause_);
      launch_us += microseconds_of([&] { ddp_.mark_ready(bucket.parameters.back()); });
    }
    ddp_.wait();
    const auto buckets = static_cast<double>(ddp_.layout().buckets.size());
    const std::int64_t allocated = test::allocations() - allocations;
    times.begin_step.push_back(begin_us);
    times.mark_ready.push_back(mark_us / (kParameters - buckets));
    times.launching.push_back(launch_us / buckets);
    times.allocations.push_back(allocated);
  }

 private:
  template <class F>
  static double microseconds_of(const F& f) {
    return duration_of<std::chrono::microseconds>(f);
  }

  std::chrono::microseconds pause_;
  std::vector<std::vector<float>> values_;
  DistributedDataParallel ddp_;
};

struct Case {
  const char* name;
  std::shared_ptr<ProcessGroup> group;
  std::chrono::microseconds pause;
};

HostTimes measure(const Case& each, int rounds) {
  Subject subject(each.group, each.pause);
  HostTimes warm_up, times;
  subject.step(warm_up);
  for (int round = 0; round < rounds; ++round) subject.step(times);
  return times;
}

std::string with_spread(const std::vector<double>& samples) {
  const Summary summary = summarize(samples);
  return fmt::format("{:.3f} {:3.0f}%", summary.median, summary.spread_percent());
}

}  // namespace

void measure_host_time(int rounds) {
  fmt::print(
      "\n# Host time, us a call: {} parameters of {} KiB in buckets of {} KiB; medians of {} "
      "steps, the most allocations of any. Promised: mark_ready {}, with a launch {}, none\n",
      kParameters, kParameterBytes >> 10, kBucketBytes >> 10, rounds, kPromiseUs, kLaunchPromiseUs);
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
    const HostTimes times = measure(each, rounds);
    table.print_row(
        {each.name, with_spread(times.begin_step), with_spread(times.mark_ready),
         with_spread(times.launching),
         fmt::format("{}", *std::max_element(times.allocations.begin(), times.allocations.end()))});
  }
}

}  // namespace ddp::bench
