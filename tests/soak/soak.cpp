// SPDX-License-Identifier: MIT
//
// Measures how long the ends of a job take, over many rounds: soak ROUNDS
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/job.h"

using namespace ddp;
using test::ChildProcess;
using test::Job;

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

double since(Clock::time_point begin) { return Milliseconds(Clock::now() - begin).count(); }

// From the kill of one rank until the last of the others has raised and exited.
double survivors_exit(int round) {
  Job job(3, "loop");
  job.wait_until_ready();
  const int victim = round % job.size();
  const auto begin = Clock::now();
  job[victim].send_signal(SIGKILL);
  for (int rank = 0; rank < job.size(); ++rank) {
    const int code = job[rank].wait();
    if (rank != victim && code != 3) throw std::runtime_error("a survivor did not raise");
  }
  return since(begin);
}

// From the signal to the launcher until it and its workers are gone.
double launcher_ends(int signal_number, int expected_code) {
  ChildProcess launcher(
      {DDP_LAUNCH_PATH, "-n", "3", "--show", "all", DDP_COLLECTIVE_WORKER, "loop"});
  launcher.wait_for_output("rank 2 ready");
  const auto begin = Clock::now();
  launcher.send_signal(signal_number);
  if (launcher.wait() != expected_code) throw std::runtime_error("unexpected exit code");
  return since(begin);
}

void report(const std::string& what, double promise_ms, int rounds,
            const std::function<double(int)>& measure) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(measure(round));
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::printf("%-52s %4d rounds: median %7.1f ms, max %7.1f ms (promised %.0f ms)%s\n",
              what.c_str(), rounds, median, times.back(), promise_ms,
              times.back() > promise_ms ? "  BROKEN" : "");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int rounds = argc > 1 ? std::max(1, std::stoi(argv[1])) : 100;
    report("kill -9 of a rank in a collective: others raise", 1000, rounds, survivors_exit);
    report("Ctrl-C: the job is gone", 5000, rounds, [](int) { return launcher_ends(SIGINT, 130); });
    report("kill -9 of the agent: output of all ranks ends", 2000, rounds,
           [](int) { return launcher_ends(SIGKILL, 128 + SIGKILL); });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}
