// SPDX-License-Identifier: MIT
//
// How a rank of a shm group waits for the others, and how the group ends.
//
// Each rank has a doorbell, a counter. A waiter spins a little on its condition (spin_budget.h);
// then it says that it sleeps, looks once more, and sleeps on the doorbell (futex). Whoever changes
// what others may be waiting for rings those that say so. Between the rings it looks at least every
// kLivenessPeriod whether its condition holds, whether somebody aborted or left, and whether a
// process died.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/collectives/peer_watch.h"
#include "ddp/collectives/shm_segment.h"
#include "ddp/collectives/spin_budget.h"

namespace ddp::shm {

// Tells the CPU that this is a spin loop.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One rank's view of the segment. Used by one thread at a time, but for leave(), fail(), can_post()
// and what posts.
//
// The counters that ranks wait for are written and read in sequential consistency: that pairs a
// waiter that goes to sleep with whoever makes its condition true and looks for sleepers.
class Context {
 public:
  using Condition = std::function<bool()>;
  // True for the ranks that the running wait is for.
  using IsAwaited = std::function<bool(int rank)>;

  Context(const GroupConfig& config, std::shared_ptr<FlightRecorder> recorder);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int world_size() const { return segment_.world_size(); }
  [[nodiscard]] const Segment& segment() const { return segment_; }
  // See cpu_sharing.h.
  [[nodiscard]] double cpus_per_rank() const { return cpus_per_rank_; }

  // Of each wait from now on.
  void set_timeout(Timeout timeout) { timeout_ = timeout; }
  // A send or recv is about to wait for `peer`.
  void begin_transfer(const CollectiveSignature& signature, int peer);

  // To post a collective is to tell the other ranks that this rank calls it. Collectives 1, 2, ...
  // are posted in turn, each when can_post() is true. From then on the others do not need this rank
  // for a small operand, of which `elements` are the bytes that they need, nor for one that lies in
  // shared memory.
  [[nodiscard]] bool can_post();
  void post_small(const CollectiveSignature& signature, std::span<const std::byte> elements);
  void post(const CollectiveSignature& signature, const Region& operand);
  [[nodiscard]] std::uint64_t posted() const { return control(rank_).posted.load(); }

  // Waits until this rank can post the collective of that signature.
  void wait_for_room(const CollectiveSignature& signature);
  // Begins a collective that this rank has posted: waits until all have, and compares:
  // MismatchError on every rank.
  void begin_collective(std::uint64_t number);
  // Begins it only if all ranks have posted it, or do so within a moment. Else, and if the ranks
  // differ or the group is broken, does nothing and returns false.
  [[nodiscard]] bool try_begin_collective(std::uint64_t number);
  void end_collective();
  // If a rank's operand of the running collective lies where the others cannot reach it, that rank
  // brings a copy to shared memory, and all ranks wait for it.
  void bring(const Region& copy);
  void wait_for_guests();
  // True while that rank runs the collective that this one runs.
  [[nodiscard]] bool is_running(int rank) const;
  // Of the ranks that run a collective: what a rank wrote before is seen by all after.
  void barrier();
  // Blocks until `ready` returns true; throws if the group is broken, even if it is. `ready` may
  // only look at the segment.
  template <class Ready, class Awaits>
  void wait_until(const Ready& ready, const Awaits& is_awaited) {
    if (!spin_until(ready)) {
      spins_.did_not_come();
      sleep_until(std::cref(ready), std::cref(is_awaited));
    }
    if (is_broken()) throw_recorded_error();
  }
  // Tells the others that something they may be waiting for has changed.
  void ring(int rank) const;
  void ring_all() const;

  // Records the first cause for all ranks and wakes them. Returns the error to throw: the first
  // rank decides its class and text.
  std::exception_ptr fail(Cause cause, const std::string& text);
  // This rank takes part no more; its own waits throw.
  void leave();
  [[nodiscard]] bool is_leaving() const { return leaving_.load(); }

 private:
  [[nodiscard]] RankControl& control(int rank) const { return segment_.control(rank); }
  void announce(std::uint64_t number);
  // True if all ranks have counted up to `goal`.
  [[nodiscard]] bool have_all(std::atomic<std::uint64_t> RankControl::*counter,
                              std::uint64_t goal) const;
  [[nodiscard]] bool have_all_finished(std::uint64_t goal);
  // The first rank that has posted something else than rank 0; 0 if none has.
  [[nodiscard]] int differing_rank(std::uint64_t number) const;
  [[nodiscard]] bool have_all_arrived() const;
  template <class Ready>
  [[nodiscard]] bool spin_until(const Ready& ready);
  void sleep_until(const Condition& ready, const IsAwaited& is_awaited);
  void check_peers(const Condition& ready, const IsAwaited& is_awaited);
  void check_peer(int other, const Condition& ready, const IsAwaited& is_awaited);
  void check_peer_call(int other, const Condition& ready);
  [[nodiscard]] bool is_broken() const;
  [[nodiscard]] std::exception_ptr recorded_error() const;
  [[noreturn]] void throw_recorded_error() const;
  [[noreturn]] void time_out(const IsAwaited& is_awaited);
  [[nodiscard]] std::string late_ranks(const IsAwaited& is_awaited) const;
  [[nodiscard]] std::string operation() const;

  Segment segment_;
  int rank_;
  Timeout timeout_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::uint64_t collective_ = 0;                   // begun last
  std::atomic<std::uint64_t> finished_by_all_{0};  // collectives, at least
  std::uint32_t phase_ = 0;
  double cpus_per_rank_;
  SpinBudget spins_;
  PeerWatch watch_;
  Clock::time_point next_look_;  // at the processes
  CollectiveSignature current_;  // what an error message says is going on
  int current_peer_ = -1;        // of a send or recv; -1: all ranks take part
  std::atomic<bool> leaving_{false};
};

template <class Ready>
bool Context::spin_until(const Ready& ready) {
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
