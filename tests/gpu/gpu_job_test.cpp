// SPDX-License-Identifier: MIT
//
// Jobs whose processes share a GPU: how they end when a process is killed or stopped in an
// all_reduce, and that ranks do not share a GPU by accident.
#include <signal.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"
#include "launcher/plan/environment.h"
#include "support/hang_checks.h"
#include "support/job.h"
#include "support/launch.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using test::ChildProcess;
using test::Job;
using test::last_line;

namespace {

constexpr int kRanks = 2;
constexpr Timeout kMismatchBound = 5 * 2s;
constexpr Timeout kStartBound = 60s;             // in which NCCL connects and loads its kernels
constexpr const char* kMode = "loop-allocated";  // calls all_reduce on 64 MiB in a loop

// A start of NCCL, then the ten seconds that it gets to close its connections.
constexpr Timeout kLeaveBound = 40s;

// The environment that ddp-launch --oversubscribe gives a rank.
test::Environment sharing(int rank) {
  launcher::WorkerPlan plan;
  plan.oversubscribe = true;
  launcher::JobLayout layout;
  layout.local_world_size = layout.world_size = kRanks;
  test::Environment environment;
  for (const std::string& entry : launcher::worker_environment(plan, layout, {}, rank)) {
    const std::size_t equals = entry.find('=');
    environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> launch(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"-n", std::to_string(kRanks)};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {DDP_COLLECTIVE_WORKER_PATH, kMode, "nccl"});
  return test::launch::command(words);
}

// The pid in the output "rank R ready, pid P".
pid_t pid_of(int rank, const std::string& output) {
  const std::string before = "rank " + std::to_string(rank) + " ready, pid ";
  const std::size_t at = output.find(before);
  return at == std::string::npos ? 0 : std::stoi(output.substr(at + before.size()));
}

auto milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<Timeout>(Clock::now() - begin).count();
}

// Although these ranks have the default timeout of ten minutes, the survivor ends at once.
void check_loss_is_told(Job& job, int survivor, int lost, const std::string& fate) {
  ChildProcess& process = job[survivor];
  CHECK(process.wait(test::kBound) == 3);
  const std::string name = "rank " + std::to_string(lost) + " (";
  const std::string pid = "pid " + std::to_string(job[lost].pid());
  CHECK_THAT(last_line(process.err()),
             Contains("[nccl] " + name) && Contains(pid) &&
                 Contains(fate + ", while rank " + std::to_string(survivor) + " is in #") &&
                 Contains("all_reduce"));
}

// On a GPU, where each start takes seconds, the first two ways to leave stand for all of them.
template <std::size_t kCount>
std::span<const char* const> those_with_time(const std::array<const char*, kCount>& modes) {
  return std::span(modes).first(DDP_LEAVE_ROUNDS > 1 ? kCount : std::min<std::size_t>(2, kCount));
}

// Whether a rank has begun to communicate before it ended like this.
bool is_ready(const std::string& end) { return end.find("ready, pid") != std::string::npos; }

}  // namespace

TEST_CASE("a rank that is killed in an all_reduce ends the other one, which names it",
          "[gpu][job]") {
  for (const int victim : {0, 1}) {
    Job job(kRanks, kMode, "nccl", "patient", sharing);
    job.wait_until_ready();
    const auto begin = Clock::now();
    job[victim].send_signal(SIGKILL);
    check_loss_is_told(job, 1 - victim, victim, "died");
    WARN("rank " << 1 - victim << " says after " << milliseconds_since(begin)
                 << " ms: " << last_line(job[1 - victim].err()));
  }
}

TEST_CASE("a rank that returns from main before the others ends them, and they name it",
          "[gpu][job]") {
  Job job(kRanks, "leave-allocated", "nccl", "patient", sharing);
  CHECK(job[1].wait(kStartBound) == 0);
  check_loss_is_told(job, 0, 1, "left the group");
}

// Its host runs ahead of its device, and does not know who is late.
TEST_CASE("a rank that leaves with an all_reduce in flight waits for a late one", "[gpu][job]") {
  Job job(kRanks, "late", "nccl", "patient", sharing);
  for (int rank = 0; rank < kRanks; ++rank) {
    INFO("rank " << rank << ": " << job[rank].err());
    CHECK(job[rank].wait(kStartBound) == 0);
  }
}

TEST_CASE("ranks that call different collectives are told both calls", "[gpu][job]") {
  const auto [how, other] = GENERATE(table<std::string, std::string>({
      {"kind", "broadcast(float32[100003], root 0)"},
      {"count", "all_reduce(float32[100002], sum)"},
      {"dtype", "all_reduce(int32[100003], sum)"},
  }));
  Job job(kRanks, how, "nccl", "patient", sharing);
  job.wait_until_ready();
  for (int rank = 0; rank < kRanks; ++rank) job[rank].write_stdin("x");
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(job[rank].wait(kMismatchBound) == 3);
    CHECK_THAT(last_line(job[rank].err()),
               Contains("[nccl] ranks called different collectives: rank 0 called #") &&
                   Contains(" all_reduce(float32[100003], sum), rank 1 called #") &&
                   Contains(other));
  }
}

TEST_CASE("a rank that is stopped in an all_reduce is named", "[gpu][job]") {
  Job job(kRanks, kMode, "nccl", "quick", sharing);
  test::check_stop_is_told(job, 1);
}

TEST_CASE("ddp-launch names the rank that was killed in an all_reduce", "[gpu][job]") {
  ChildProcess launcher(launch({"--oversubscribe", "--show=all"}));
  launcher.wait_until([](const ChildProcess& child) {
    return pid_of(0, child.out()) != 0 && pid_of(1, child.out()) != 0;
  });
  REQUIRE(::kill(pid_of(1, launcher.out()), SIGKILL) == 0);
  CHECK(launcher.wait(test::launch::kStopBound) == 128 + SIGKILL);
  CHECK_THAT(last_line(launcher.err()),
             Matches("ddp-launch: rank 1 \\([^,]+, pid [0-9]+\\) was killed by SIGKILL after .*"));
}

TEST_CASE("leaving in the middle of an all_reduce or a step causes no crash and no hang",
          "[gpu][job]") {
  constexpr std::array kModes = {"exit",      "step-throw",  "return",     "throw",
                                 "step-exit", "step-return", "step-static"};
  for (const std::string mode : those_with_time(kModes)) {
    for (int round = 0; round < DDP_LEAVE_ROUNDS; ++round) {
      Job job(kRanks, mode, "nccl", "quick", sharing);
      const std::vector<std::string> ends = job.wait_all(kLeaveBound);
      INFO(mode << ", round " << round << ": " << ends[0] << "; " << ends[1]);
      REQUIRE((is_ready(ends[0]) || is_ready(ends[1])));
      for (const std::string& end : ends) {
        REQUIRE((end.starts_with("0, ") || end.starts_with("3, ")));
      }
    }
  }
}

TEST_CASE("an exception that nobody catches ends the process, with its text", "[gpu][job]") {
  for (const std::string mode : {"uncaught", "step-uncaught"}) {
    for (int round = 0; round < DDP_LEAVE_ROUNDS; ++round) {
      Job job(kRanks, mode, "nccl", "quick", sharing);
      for (int rank = 0; rank < kRanks; ++rank) {
        const int code = job[rank].wait(kLeaveBound);
        INFO(mode << ", round " << round << ", rank " << rank << ": " << job[rank].err());
        if (code == 3) continue;  // the other rank's end came first
        REQUIRE(code == 128 + SIGABRT);
        REQUIRE_THAT(job[rank].err(), Contains("what():  thrown on purpose"));
      }
    }
  }
}

TEST_CASE("ranks share a GPU only if this is allowed", "[gpu][job]") {
  if (cu::device_count() > 1) {
    WARN("SKIPPED: there are several GPUs");
    return;
  }
  ChildProcess launcher(launch({}));
  CHECK(launcher.wait(test::launch::kStopBound) == 3);
  CHECK_THAT(launcher.err(), Contains("are on the same GPU") && Contains("DDP_OVERSUBSCRIBE"));
}
