// SPDX-License-Identifier: MIT
#include <fmt/core.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <thread>

#include "launch/command.h"
#include "launch/parts.h"
#include "launch/process_cost.h"
#include "launch/rivals.h"
#include "support/report.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 8;
constexpr auto kSettling = 3s;  // torchrun is slow to start its workers
constexpr auto kSample = 2s;

struct Job {
  std::string name;
  std::vector<std::string> program;
};

std::vector<Job> jobs() {
  return {{"sleeps", {"/bin/sleep", "1000"}},
          {"10 lines/s", {"/bin/sh", "-c", "while :; do echo a line of a log; sleep 0.1; done"}}};
}

struct Sample {
  double cpu_percent;
  double memory_mib;
};

Sample watch(const std::vector<std::string>& command) {
  const RunningCommand job(command);
  std::this_thread::sleep_for(kSettling);
  const ProcessCost before = cost_of_launcher(job.pid());
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(kSample);
  const ProcessCost after = cost_of_launcher(job.pid());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {.cpu_percent = 100 * (after.cpu_seconds - before.cpu_seconds) / elapsed.count(),
          .memory_mib = after.resident_mib};
}

}  // namespace

void measure_watching(const std::string& bin, int rounds) {
  const std::vector<Launcher> all = launchers(bin);
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> samples;
  for (int round = 0; round < rounds; ++round) {
    for (const Job& job : jobs()) {
      for (const Launcher& launcher : all) {
        const Sample sample = watch(join(launcher.command(bin, kWorkers), job.program));
        auto& [cpu, memory] = samples[launcher.name + ", each worker " + job.name];
        cpu.push_back(sample.cpu_percent);
        memory.push_back(sample.memory_mib);
      }
    }
  }
  fmt::print(
      "\n# What a launcher of {} workers takes (of one CPU; resident, all its processes added up); "
      "{} interleaved samples of {} s; targets for ddp-launch: 1 %, 20 MB\n",
      kWorkers, rounds, std::chrono::seconds(kSample).count());
  const Table table({{"launcher", 36}, {"CPU(%)", 7}, {"+-", 5}, {"memory(MiB)", 11}, {"+-", 4}});
  table.print_titles();
  for (const auto& [name, values] : samples) {
    const Summary cpu = summarize(values.first);
    const Summary memory = summarize(values.second);
    table.print_row(
        {name, fmt::format("{:.3f}", cpu.median), fmt::format("{:.0f}%", cpu.spread_percent()),
         fmt::format("{:.1f}", memory.median), fmt::format("{:.0f}%", memory.spread_percent())});
  }
}

}  // namespace ddp::bench
