// SPDX-License-Identifier: MIT
//
// What the flight recorder costs: nanoseconds per recorded event, with one thread and with two at
// once. Measured in CPU time of the thread, so that other processes do not count.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp;
using namespace ddp::bench;

constexpr int kEvents = 200'000;  // in a sample
constexpr int kRounds = 31;

double thread_nanoseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

double nanoseconds_each(const std::function<void()>& run) {
  const double begin = thread_nanoseconds();
  run();
  return (thread_nanoseconds() - begin) / kEvents;
}

void submit(FlightRecorder& recorder) {
  const Buffer buffer{nullptr, 1024, DType::kFloat32, kCpuDevice};
  const Collective collective{CollectiveKind::kAllReduce, buffer, buffer, ReduceOp::kSum, 0};
  for (std::uint64_t i = 1; i <= kEvents; ++i) recorder.submitted(i, collective);
}

void finish(FlightRecorder& recorder) {
  for (std::uint64_t i = 1; i <= kEvents; ++i) recorder.done(i, Clock::now());
}

// One thread submits while another finishes, as a caller and the queue's thread do, on two CPUs if
// there are two. Returns the time of the slower thread.
double submit_and_finish(FlightRecorder& recorder) {
  const std::vector<int> cpus = affinity_cpus();
  double finishing = 0;
  std::thread other([&] {
    const Pinned pinned(cpus.back());
    finishing = nanoseconds_each([&] { finish(recorder); });
  });
  const Pinned pinned(cpus.front());
  const double submitting = nanoseconds_each([&] { submit(recorder); });
  other.join();
  return std::max(submitting, finishing);
}

void read_the_clock() {
  for (int i = 0; i < kEvents; ++i) static_cast<void>(Clock::now());
}

void run() {
  FlightRecorder recorder;
  const auto variant = [](const char* name, const std::function<void()>& action) {
    return Variant{name, [action] { return nanoseconds_each(action); }};
  };
  std::vector<Variant> variants{
      variant("a look at the clock", read_the_clock),
      variant("submitted", [&] { submit(recorder); }),
      variant("done", [&] { finish(recorder); }),
      {"both, by two threads at once", [&] { return submit_and_finish(recorder); }}};
  interleave(variants, kRounds);
  std::puts(header_line("bench_recorder").c_str());
  fmt::print("# ns an event, medians of {} samples of {}; +- is half the interquartile range\n",
             kRounds, kEvents);
  const Table table({{"event", 28}, {"ns", 6}, {"+-", 4}});
  table.print_titles();
  for (const Variant& each : variants) {
    const Summary summary = summarize(each.samples);
    table.print_row({each.name, fmt::format("{:.1f}", summary.median),
                     fmt::format("{:.0f}%", summary.spread_percent())});
  }
}

}  // namespace

int main() { return run_program("bench_recorder", run); }
