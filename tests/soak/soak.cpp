// SPDX-License-Identifier: MIT
//
// Measures how long jobs take to end, over many rounds: soak ROUNDS. Cases that take seconds run in
// a twentieth of the rounds. Exits with 1 if a promise is broken.
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
#include "soak/promises.h"
#include "soak/shared_memory.h"
#include "support/files.h"
#include "support/job.h"

using namespace ddp;

namespace {

void print_line(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void report(soak::Promises& promises, const std::string& what, double promise_ms, int rounds,
            const std::function<double(int)>& measure) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(measure(round));
  promises.at_most(what, promise_ms, times);
}

void report_launcher_end(soak::Promises& promises, const std::string& what, double promise_ms,
                         int rounds, soak::Blow blow) {
  std::vector<double> times;
  int pids = 0, pids_left = 0, ports_stuck = 0;
  for (int round = 0; round < rounds; ++round) {
    const soak::LauncherEnd end = soak::launcher_end(blow, round);
    times.push_back(end.milliseconds);
    pids += end.pids;
    pids_left += end.pids_left;
    ports_stuck += end.is_port_stuck ? 1 : 0;
  }
  promises.at_most(what, promise_ms, times);
  promises.finding(fmt::format("  {} of {} pids left, {} of {} ports stuck", pids_left, pids,
                               ports_stuck, rounds),
                   pids_left + ports_stuck == 0);
}

void report_launcher_ends(soak::Promises& promises, int rounds) {
  using soak::Blow;
  report_launcher_end(promises, "kill -9 of a rank: ddp-launch and all below it are gone", 5000,
                      rounds, Blow::kRankKilled);
  report_launcher_end(promises, "Ctrl-C: likewise", 5000, rounds, Blow::kCtrlC);
  report_launcher_end(promises, "kill -9 of ddp-launch: likewise", 2000, rounds,
                      Blow::kGuardianKilled);
  report_launcher_end(promises, "kill -9 of its agent: likewise", 2000, rounds, Blow::kAgentKilled);
}

void report_ends(soak::Promises& promises, int rounds) {
  for (const std::string& backend : test::cpu_backends()) {
    report(promises, backend + ": kill -9 of a rank in a collective: others raise", 1000, rounds,
           [&](int round) { return soak::survivors_exit("loop", backend, round); });
    report(promises, backend + ": a rank leaves early: others name it", 2000, rounds,
           [&](int) { return soak::early_leaver_is_named(backend); });
    report(promises, backend + ": ranks call different things: all tell both", 2000, rounds,
           [&](int round) { return soak::difference_is_told(backend, round); });
  }
}

// Checks that the ranks' shared memory is freed. Other processes may start and end meanwhile, so a
// difference of half an operand is noise.
void report_large_kills(soak::Promises& promises, const std::string& what, const std::string& mode,
                        int rounds) {
  constexpr double kNoiseMebibytes = 32;
  const soak::SharedMemory before = soak::shared_memory_of_host();
  report(promises, "shm: likewise, of 64 MiB of " + what, 1000, rounds,
         [&](int round) { return soak::survivors_exit(mode, "shm", round); });
  const soak::SharedMemory after = soak::shared_memory_of_host();
  const std::size_t names = soak::count_new_names(before, after);
  const double mebibytes = after.mebibytes - before.mebibytes;
  promises.finding(fmt::format("  shared memory left: {:+.1f} MiB on this host, {} names in "
                               "/dev/shm",
                               mebibytes, names),
                   mebibytes <= kNoiseMebibytes && names == 0);
}

// Reports the lines of a job in which a rank is stopped in a collective.
void report_hang_lines(soak::Promises& promises, int rounds) {
  std::vector<double> first, interval;
  for (int round = 0; round < rounds; ++round) {
    const soak::HangLines lines = soak::stopped_rank_is_named(round);
    first.push_back(lines.first);
    interval.push_back(lines.interval);
  }
  promises.at_most("SIGSTOP of a rank in a collective: a line names it", 10000, first);
  promises.at_least("... and the next such line of the job", 10000, interval);
}

void report_on_rank0(soak::Promises& promises, int rounds) {
  report(promises, "kill -9 of rank 0 in on_rank0: others raise", 2000, rounds,
         [](int) { return soak::lost_rank0_is_told(SIGKILL, "has ended"); });
  report(promises, "SIGSTOP of rank 0 in on_rank0: others raise", 25000, rounds,
         [](int) { return soak::lost_rank0_is_told(SIGSTOP, "is stopped (SIGSTOP)"); });
  report(promises, "... which hosts the store: others raise", 40000, rounds, [](int) {
    return soak::lost_rank0_is_told(SIGSTOP, "is stopped (SIGSTOP)", test::StoreHost::kRank0);
  });
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
    soak::Promises promises(print_line);
    report_checkpoint_kills(2 * rounds);
    report_launcher_ends(promises, rounds);
    report_ends(promises, rounds);
    report_large_kills(promises, "the group's own memory", "loop-allocated", rounds);
    report_large_kills(promises, "any memory", "loop-large", rounds);
    const int long_rounds = std::max(1, rounds / 20);
    report_hang_lines(promises, long_rounds);
    report_on_rank0(promises, long_rounds);
    return promises.all_kept() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}
