// SPDX-License-Identifier: MIT
//
// How a rank of a shm group waits for the others, and how the group ends.
//
// Each rank has a doorbell, a counter. A waiting rank polls its condition for a little while
// (spin_budget.h; if it shares its CPU with other ranks, it yields to them meanwhile, spin.h). Then
// it marks itself as sleeping, checks once more, and sleeps on the doorbell (futex). A rank that
// changes something others may be waiting for rings the doorbells of those that sleep. At least
// every kLivenessPeriod the sleeper checks its condition, whether a rank aborted or left, and
// whether a process died.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ddp/base/threads/awake_clock.h"
#include "ddp/base/threads/spin.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/failure/lost_rank.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/queue/spin_budget.h"
#include "ddp/collectives/shm/peer_watch.h"
#include "ddp/collectives/shm/shm_segment.h"

namespace ddp::shm {

using Cause = GroupFailure::Kind;

// Tells the CPU that this is a spin loop, and takes some ten nanoseconds. On ARM `yield` takes no
// time where a core runs one thread, and the looks of SpinBudget would be over far too soon.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// One rank's view of the segment. Used by one thread at a time, except for ring(), fail(),
// check_on(), leave() and the getters.
//
// What ranks wait for, the counters and the state of the cause, uses sequential consistency: it
// pairs a rank that is about to sleep with a rank that makes its condition true and looks for
// sleepers.
class Member {
 public:
  using Condition = std::function<bool()>;
  // True for the ranks for which the current wait waits.
  using IsAwaited = std::function<bool(int rank)>;

  Member(const GroupConfig& config, std::shared_ptr<const FlightRecorder> recorder);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const GroupNames& names() const { return names_; }
  [[nodiscard]] int world_size() const { return segment_.world_size(); }
  [[nodiscard]] const Segment& segment() const { return segment_; }
  [[nodiscard]] RankControl& control(int rank) const { return segment_.control(rank); }
  // See cpu_sharing.h.
  [[nodiscard]] double cpus_per_rank() const { return cpus_per_rank_; }

  // Sets the timeout of later waits.
  void set_timeout(Timeout timeout) { timeout_ = timeout; }
  [[nodiscard]] Timeout timeout() const { return timeout_; }
  // Sets the purpose of later waits: a collective, or a send to or recv from `peer`.
  void begin_call(const CollectiveSignature& signature, int peer = kAllRanks);
  [[nodiscard]] const CollectiveSignature& call() const { return call_; }
  [[nodiscard]] std::optional<int> peer_of_call() const {
    return call_peer_ == kAllRanks ? std::nullopt : std::optional(call_peer_);
  }

  // Which decides when deadlines of waits pass.
  [[nodiscard]] AwakeClock& clock() { return clock_; }

  // Blocks until `ready` returns true, at most until the deadline or, without one, for the timeout.
  // Throws if the group is broken, even if `ready` is true. `ready` may only read the segment.
  template <class Ready, class Awaits>
  void wait_until(const Ready& ready, const Awaits& is_awaited,
                  const std::optional<Deadline>& deadline = std::nullopt) {
    if (!comes_soon(ready)) {
      spins_.did_not_come();
      sleep_until(std::cref(ready), std::cref(is_awaited),
                  deadline ? *deadline : clock_.after(timeout_));
    }
    if (is_broken()) throw_recorded_error();
  }
  // Polls for a short time and returns whether `ready` returned true meanwhile.
  template <class Ready>
  [[nodiscard]] bool comes_soon(const Ready& ready);
  // Writes of any rank before it are visible to all ranks after it. All ranks call it together.
  void barrier();
  // Tells the others that something they may be waiting for has changed.
  void ring(int rank) const;
  void ring_all() const;

  // Records the first cause for all ranks and wakes them. Returns the error to throw, whose class
  // and text the first failing rank decides, unless it is killed while it writes them.
  std::exception_ptr fail(GroupFailure failure);
  [[nodiscard]] bool is_broken() const;
  // Throws if the rank has died, or does so within a moment: what a process holds is gone before it
  // counts as ended.
  void expect_alive(int rank);
  // See ProcessGroup::check_on().
  void check_on(std::span<const int> awaited, const Condition& has_come);
  // This rank no longer takes part; its own waits throw.
  void leave();
  [[nodiscard]] bool is_leaving() const { return leaving_.load(); }

 private:
  static constexpr int kAllRanks = -1;

  void sleep_until(const Condition& ready, const IsAwaited& is_awaited, Deadline deadline);
  void check_peers(const Condition& ready, const IsAwaited& is_awaited);
  void check_peer(int other, const Condition& ready, const IsAwaited& is_awaited);
  void check_peer_call(int other, const Condition& ready);
  // True if that rank has not yet arrived at the barrier in which this one waits.
  [[nodiscard]] bool is_behind(int rank) const;
  void await_cause() const;
  [[nodiscard]] std::exception_ptr recorded_error() const;
  [[noreturn]] void throw_recorded_error() const;
  [[noreturn]] void time_out(const IsAwaited& is_awaited);
  [[nodiscard]] LostRank lost(int rank, bool has_left) const;
  [[noreturn]] void lose(int rank, bool has_left);
  [[nodiscard]] std::string late_ranks(const IsAwaited& is_awaited) const;
  [[nodiscard]] std::string operation() const;

  Segment segment_;
  int rank_;
  int job_rank_;
  GroupNames names_;
  Timeout timeout_;
  std::shared_ptr<const FlightRecorder> recorder_;
  std::uint32_t phase_ = 0;
  double cpus_per_rank_;
  SpinBudget spins_;    // where a rank has a CPU of its own
  Spin yielding_spin_;  // where it shares one
  PeerWatch watch_;
  AwakeClock clock_;
  Clock::time_point next_look_;  // time of the next check of the processes
  CollectiveSignature call_;     // for error messages
  int call_peer_ = kAllRanks;
  std::atomic<bool> leaving_{false};
};

template <class Ready>
bool Member::comes_soon(const Ready& ready) {
  if (cpus_per_rank_ < 1) return ready() || yielding_spin_.until(ready);
  const int looks = spins_.looks();
  for (int i = 0; i <= looks; ++i) {
    if (ready()) {
      spins_.came(i);
      return true;
    }
    relax();
  }
  return false;
}

}  // namespace ddp::shm
