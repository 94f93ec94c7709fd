// SPDX-License-Identifier: MIT
//
// Measures how long jobs take to end, over many rounds: soak ROUNDS. Cases that take seconds run in
// a twentieth of the rounds.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "soak/checkpoint_kills.h"
#include "soak/ends.h"
#include "soak/launcher_ends.h"
#include "soak/shared_memory.h"
#include "support/files.h"
#include "support/job.h"

using namespace ddp;

namespace {

void print(const std::string& what, std::vector<double> times, const std::string& extreme,
           const std::string& promise, bool is_kept) {
  std::sort(times.begin(), times.end());
  fmt::print("{:<58} {:4} rounds: median {:7.1f} ms, {} ms (promised {} ms){}\n", what,
             times.size(), times[times.size() / 2], extreme, promise, is_kept ? "" : "  BROKEN");
  std::fflush(stdout);
}

void print_at_most(const std::string& what, double promise_ms, const std::vector<double>& times) {
  const double most = *std::max_element(times.begin(), times.end());
  print(what, times, fmt::format("max {:7.1f}", most), fmt::format("{}", promise_ms),
        most <= promise_ms);
}

void print_at_least(const std::string& what, double promise_ms, const std::vector<double>& times) {
  const double least = *std::min_element(times.begin(), times.end());
  print(what, times, fmt::format("min {:7.1f}", least), fmt::format("at least {}", promise_ms),
        least >= promise_ms);
}

void report(const std::string& what, double promise_ms, int rounds,
            const std::function<double(int)>& measure) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(measure(round));
  print_at_most(what, promise_ms, times);
}

void report_launcher_end(const std::string& what, double promise_ms, int rounds, soak::Blow blow) {
  std::vector<double> times;
  int pids = 0, pids_left = 0, ports_stuck = 0;
  for (int round = 0; round < rounds; ++round) {
    const soak::LauncherEnd end = soak::launcher_end(blow, round);
    times.push_back(end.milliseconds);
    pids += end.pids;
    pids_left += end.pids_left;
    ports_stuck += end.is_port_stuck ? 1 : 0;
  }
  print_at_most(what, promise_ms, times);
  fmt::print("  {} of {} pids left, {} of {} ports stuck{}\n", pids_left, pids, ports_stuck, rounds,
             pids_left + ports_stuck > 0 ? "  BROKEN" : "");
}

void report_launcher_ends(int rounds) {
  using soak::Blow;
  report_launcher_end("kill -9 of a rank: ddp-launch and all below it are gone", 5000, rounds,
                      Blow::kRankKilled);
  report_launcher_end("Ctrl-C: likewise", 5000, rounds, Blow::kCtrlC);
  report_launcher_end("kill -9 of ddp-launch: likewise", 2000, rounds, Blow::kGuardianKilled);
  report_launcher_end("kill -9 of its agent: likewise", 2000, rounds, Blow::kAgentKilled);
}

void report_ends(int rounds) {
  for (const std::string& backend : test::cpu_backends()) {
    const double kill_ms = backend == "gloo" ? 2000 : 1000;  // Gloo may hang
    report(backend + ": kill -9 of a rank in a collective: others raise", kill_ms, rounds,
           [&](int round) { return soak::survivors_exit("loop", backend, round); });
    report(backend + ": a rank leaves early: others name it", 2000, rounds,
           [&](int) { return soak::early_leaver_is_named(backend); });
    report(backend + ": ranks call different things: all tell both", 2000, rounds,
           [&](int round) { return soak::difference_is_told(backend, round); });
  }
}

// Checks that the ranks' shared memory is freed. Other processes may start and end meanwhile, so a
// difference of half an operand is noise.
void report_large_kills(const std::string& what, const std::string& mode, int rounds) {
  constexpr double kNoiseMebibytes = 32;
  const soak::SharedMemory before = soak::shared_memory_of_host();
  report("shm: likewise, of 64 MiB of " + what, 1000, rounds,
         [&](int round) { return soak::survivors_exit(mode, "shm", round); });
  const soak::SharedMemory after = soak::shared_memory_of_host();
  const std::size_t names = soak::count_new_names(before, after);
  const double mebibytes = after.mebibytes - before.mebibytes;
  fmt::print("  shared memory left: {:+.1f} MiB on this host, {} names in /dev/shm{}\n", mebibytes,
             names, mebibytes > kNoiseMebibytes || names > 0 ? "  BROKEN" : "");
  std::fflush(stdout);
}

// Reports the lines of a job in which a rank is stopped in a collective.
void report_hang_lines(int rounds) {
  std::vector<double> first, interval;
  for (int round = 0; round < rounds; ++round) {
    const soak::HangLines lines = soak::stopped_rank_is_named(round);
    first.push_back(lines.first);
    interval.push_back(lines.interval);
  }
  print_at_most("SIGSTOP of a rank in a collective: a line names it", 10000, first);
  print_at_least("... and the next such line of the job", 10000, interval);
}

void report_on_rank0(int rounds) {
  report("kill -9 of rank 0 in on_rank0: others raise", 2000, rounds,
         [](int) { return soak::lost_rank0_is_told(SIGKILL, "has ended"); });
  report("SIGSTOP of rank 0 in on_rank0: others raise", 25000, rounds,
         [](int) { return soak::lost_rank0_is_told(SIGSTOP, "is stopped (SIGSTOP)"); });
}

void report_checkpoint_kills(int rounds) {
  const test::TemporaryDirectory directory;
  const soak::CheckpointKills kills = soak::kill_while_saving(directory.path(), rounds);
  fmt::print(
      "kill -9 of a process that saves: the newest checkpoint loads {} of {} times\n"
      "  {} kills hit while it was written, {} before `latest` named it\n",
      kills.rounds, rounds, kills.in_file, kills.before_list);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int rounds = argc > 1 ? std::max(1, std::stoi(argv[1])) : 100;
    report_checkpoint_kills(2 * rounds);
    report_launcher_ends(rounds);
    report_ends(rounds);
    report_large_kills("the group's own memory", "loop-allocated", rounds);
    report_large_kills("any memory", "loop-large", rounds);
    const int long_rounds = std::max(1, rounds / 20);
    report_hang_lines(long_rounds);
    report_on_rank0(long_rounds);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}
