// SPDX-License-Identifier: MIT
#include "ddp/collectives/spawn.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/poll_until.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/base/system/process_status.h"
#include "ddp/base/time.h"
#include "ddp/collectives/start/absent_ranks.h"
#include "ddp/collectives/start/fork_check.h"
#include "ddp/collectives/start/spawned_process.h"
#include "ddp/store/tcp_server.h"

namespace ddp {
namespace {

constexpr Timeout kForever = Timeout::max();
// If the first rank that failed blames a peer, wait this long for the peer's own error.
constexpr Timeout kSpawnPatience{1000};
constexpr Timeout kGrace{2000};  // from SIGTERM to SIGKILL

bool is_consequence(const SpawnedEnding& ending) {
  return ending.error && ending.error->caused_by_peer;
}

// A host may have only IPv6's loopback address.
std::string loopback_address() {
  for (const char* address : {"127.0.0.1", "::1"}) {
    try {
      static_cast<void>(Socket::listen({address, 0}));
      return address;
    } catch (const Error&) {
    }
  }
  return "127.0.0.1";  // the store's error will say why it does not work
}

// shares_gpus is inherited from this process.
WorkerEnv worker_env(int rank, int nprocs, const std::string& host) {
  return {.rank = rank,
          .world_size = nprocs,
          .local_rank = rank,
          .local_world_size = nprocs,
          .master = {host, 0},
          .run_id = "spawn_" + std::to_string(::getpid()),
          .agent_hosts_store = true,
          .shares_gpus = EnvReader(::getenv).flag("DDP_OVERSUBSCRIBE")};
}

// The processes of all ranks.
class Ranks {
 public:
  // `host` is where their store will be.
  Ranks(const SpawnedProcess::Function& fn, int nprocs, const std::string& host) {
    processes_.reserve(static_cast<std::size_t>(nprocs));
    const int omp_threads = cpus_per_worker(usable_cpus(), nprocs);
    for (int rank = 0; rank < nprocs; ++rank) {
      const SpawnedRank self{.env = worker_env(rank, nprocs, host), .omp_threads = omp_threads};
      processes_.push_back(SpawnedProcess::start(self, fn, processes_));
    }
  }

  void tell_port(std::uint16_t port) const {
    for (const SpawnedProcess& process : processes_) process.tell_port(port);
  }

  // Returns when all have ended, by themselves or, after a failure, by a signal.
  void wait(AbsentRanks& absent) {
    while (running_ranks() > 0 && failed_.empty()) {
      reap_some(Deadline::after(has_ended() ? AbsentRanks::kPeriod : kForever));
      if (failed_.empty()) end_waits_for_ended(absent);
    }
    wait_until([this] { return cause_ != nullptr; }, kSpawnPatience);
    stop(SIGTERM);
    wait_until([] { return false; }, kGrace);
    stop(SIGKILL);
    wait_until([] { return false; }, kForever);
  }

  void throw_if_failed() const {
    if (failed_.empty()) return;
    const SpawnedProcess& process = cause_ != nullptr ? *cause_ : *failed_.front();
    throw Error("[spawn] rank " + std::to_string(process.rank()) + " of " +
                std::to_string(processes_.size()) + " (pid " + std::to_string(process.pid()) +
                ") " + to_string(*process.ending()));
  }

 private:
  // Waits until `condition` holds, no rank is left, or the time is up.
  template <class Condition>
  void wait_until(Condition condition, Timeout timeout) {
    const Deadline deadline = Deadline::after(timeout);
    while (running_ranks() > 0 && !condition() && !deadline.passed()) reap_some(deadline);
  }

  [[nodiscard]] std::ptrdiff_t running_ranks() const {
    return std::ranges::count_if(processes_, [](const auto& each) { return !each.ending(); });
  }

  [[nodiscard]] bool has_ended() const { return running_ranks() < std::ssize(processes_); }

  void end_waits_for_ended(AbsentRanks& absent) const {
    for (const SpawnedProcess& process : processes_) {
      if (running_ranks() > 0 && process.ending()) {
        absent.look_for_waiting(process.rank(), process.pid());
      }
    }
  }

  void reap_some(Deadline deadline) {
    std::vector<pollfd> entries;
    for (const SpawnedProcess& process : processes_) {
      entries.push_back({process.ending() ? -1 : process.end_fd(), POLLIN, 0});
    }
    if (!poll_until(entries, deadline)) return;
    for (std::size_t rank = 0; rank < entries.size(); ++rank) {
      if (entries[rank].revents != 0) reap(processes_[rank]);
    }
  }

  void reap(SpawnedProcess& process) {
    process.reap();
    if (is_stopping_ || !process.ending()->is_failure()) return;
    failed_.push_back(&process);
    if (cause_ == nullptr && !is_consequence(*process.ending())) cause_ = &process;
  }

  void stop(int signal_number) {
    is_stopping_ = true;
    for (const SpawnedProcess& process : processes_) process.send_signal(signal_number);
  }

  std::vector<SpawnedProcess> processes_;      // by rank; never moved after the constructor
  std::vector<const SpawnedProcess*> failed_;  // by themselves, in the order of their ends
  const SpawnedProcess* cause_ = nullptr;      // the first of them that blames no peer
  bool is_stopping_ = false;
};

}  // namespace

void spawn(const std::function<void(int rank)>& fn, int nprocs) {
  if (nprocs < 1) {
    throw std::invalid_argument("[spawn] nprocs is " + std::to_string(nprocs) + ", below 1");
  }
  check_can_fork();
  const ReapableChildren reapable;
  const std::string host = loopback_address();
  Ranks ranks(fn, nprocs, host);
  const TcpServer store({.host = host, .port = 0});  // starts a thread: only after the forks
  ranks.tell_port(store.endpoint().port);
  AbsentRanks absent(store.endpoint(), worker_env(0, nprocs, host));
  ranks.wait(absent);
  ranks.throw_if_failed();
}

}  // namespace ddp
