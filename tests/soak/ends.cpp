// SPDX-License-Identifier: MIT
#include "soak/ends.h"

#include <signal.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/child_process.h"
#include "support/job.h"

namespace ddp::soak {
namespace {

using namespace std::chrono_literals;
using test::ChildProcess;
using test::Job;

constexpr const char* kPatient = "patient";
constexpr Timeout kLong = 60s;  // for operations that are slow even if nothing fails

double since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Waits until this rank has ended with an error that contains `part`.
void expect_error(ChildProcess& worker, const std::string& part) {
  if (worker.wait(kLong) == 3 && contains(worker.err(), part)) return;
  throw std::runtime_error("expected '" + part + "', not '" + worker.err() + "'");
}

std::vector<std::string> warnings_of(const ChildProcess& process) {
  std::vector<std::string> lines = test::lines_of(process.err());
  std::erase_if(lines, [](const std::string& line) { return !contains(line, "[ddp] warning"); });
  return lines;
}

// Waits until there are `n` warnings that contain `part`.
void wait_for_warnings(ChildProcess& process, std::size_t n, const std::string& part) {
  process.wait_until([n](const ChildProcess& child) { return warnings_of(child).size() >= n; },
                     kLong);
  for (const std::string& line : warnings_of(process)) {
    if (!contains(line, part)) throw std::runtime_error("expected '" + part + "', not " + line);
  }
}

pid_t pid_of(const ChildProcess& launcher, int rank) {
  const std::string before = "rank " + std::to_string(rank) + " ready, pid ";
  return std::stoi(launcher.out().substr(launcher.out().find(before) + before.size()));
}

}  // namespace

double survivors_exit(const std::string& mode, const std::string& backend, int round) {
  Job job(3, mode, backend);
  job.wait_until_ready();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(round % 50));  // another moment in each round
  const int victim = round % job.size();
  const auto begin = Clock::now();
  job[victim].send_signal(SIGKILL);
  for (int rank = 0; rank < job.size(); ++rank) {
    const int code = job[rank].wait();
    if (rank != victim && code != 3) throw std::runtime_error("a survivor did not raise");
  }
  return since(begin);
}

double early_leaver_is_named(const std::string& backend) {
  Job job(3, "early", backend, kPatient);
  job[0].wait_for_output("ready");
  const auto begin = Clock::now();
  for (const int rank : {1, 2}) expect_error(job[rank], "left the group");
  return since(begin);
}

double difference_is_told(const std::string& backend, int round) {
  const std::string modes[] = {"kind", "count", "dtype"};
  const std::string calls[] = {"broadcast(float32[100003]", "all_reduce(float32[100002], sum)",
                               "all_reduce(int32[100003], sum)"};
  const int difference = round % 3;
  Job job(3, modes[difference], backend, kPatient);
  job.wait_until_ready();
  const auto begin = Clock::now();
  for (int rank = 0; rank < job.size(); ++rank) job[rank].write_stdin("\n");
  for (int rank = 0; rank < job.size(); ++rank) {
    expect_error(job[rank], "rank 0 called #2 all_reduce(float32[100003], sum), rank 2 called #2 " +
                                calls[difference]);
  }
  return since(begin);
}

double lost_rank0_is_told(int signal_number, const std::string& plight, test::StoreHost host) {
  Job job(3, "on_rank0", "auto", kPatient, {}, host);
  job[0].wait_for_output("waiting");
  std::this_thread::sleep_for(200ms);  // until the others wait for its end
  const auto begin = Clock::now();
  job[0].send_signal(signal_number);
  for (const int rank : {1, 2}) expect_error(job[rank], plight + " in on_rank0");
  return since(begin);
}

HangLines stopped_rank_is_named(int round) {
  const std::vector<std::string> backends = test::cpu_backends();
  const std::string& backend = backends[static_cast<std::size_t>(round) % backends.size()];
  ChildProcess launcher({DDP_LAUNCH_PATH, "-n", "3", "--show", "all", DDP_COLLECTIVE_WORKER_PATH,
                         "loop", backend, kPatient});
  for (const char* rank : {"0", "1", "2"}) {
    launcher.wait_for_output(std::string("rank ") + rank + " ready, pid ");
  }
  const auto stopped = Clock::now();
  ::kill(pid_of(launcher, round % 3), SIGSTOP);
  wait_for_warnings(launcher, 1, "is stopped (SIGSTOP)");
  const double first = since(stopped);
  wait_for_warnings(launcher, 2, "is stopped (SIGSTOP)");
  return {.first = first, .interval = since(stopped) - first};
}

}  // namespace ddp::soak
