// SPDX-License-Identifier: MIT
//
// The shared memory behind the shm backend, and the two ways to wait in it.
//
// Rank 0 makes one anonymous memory file (memfd) and tells its pid and descriptor through the
// store; the others open it as /proc/PID/fd/N. There is no name to unlink and no limit by
// /dev/shm's size; the kernel frees it with the last process. Layout, every part zero at first:
//
//   segment := Header, RankControl[world_size], Channel[world_size][world_size] by (src, dst),
//              slot[world_size][2]
//
// Waiting: each rank has a doorbell, a counter that peers raise after every change that it may be
// waiting for. A waiter spins a little on its condition, then sleeps on the doorbell (futex),
// looking again after each ring and at least every kLivenessPeriod. Each time it also looks whether
// somebody aborted or left, and once a period whether a process died.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/collectives/peer_watch.h"
#include "ddp/collectives/process_group.h"

namespace ddp::shm {

// Tells the CPU that this is a spin loop.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
inline constexpr std::size_t kChannelBlockBytes = std::size_t{64} << 10;
inline constexpr std::uint32_t kChannelBlocks = 2;

// One direction between two ranks: a ring of blocks, one writer, one reader.
struct Channel {
  alignas(64) std::atomic<std::uint32_t> written;  // blocks
  alignas(64) std::atomic<std::uint32_t> read;     // blocks
  CollectiveSignature signatures[kChannelBlocks];  // of the message that a block belongs to
  alignas(64) std::byte blocks[kChannelBlocks][kChannelBlockBytes];
};

struct alignas(128) RankControl {
  std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> sleeping;
  std::atomic<std::uint32_t> phase;  // how many times this rank has arrived
  std::atomic<std::uint32_t> left;   // its group was destroyed
  std::int32_t pid;
  std::atomic<std::uint64_t> collective;  // sequence of the one that this rank is in; 0: in none
  // Of the running collective, at [sequence % 2]: a rank that is one ahead cannot overwrite what a
  // slower one still compares.
  CollectiveSignature signatures[2];
};

enum class Cause : std::uint32_t { kPeer, kTimeout, kMismatch };

// The first cause of the group's end, written by one rank, read by all.
struct Header {
  std::uint64_t layout;                    // equal builds have equal ones
  std::atomic<std::uint32_t> cause_state;  // 0 none, 1 being written, 2 complete
  Cause cause;
  char text[1000];
};

// One rank's view of the segment. Used by one thread, but for leave() and fail().
class Context {
 public:
  Context(const GroupConfig& config, std::shared_ptr<FlightRecorder> recorder);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  [[nodiscard]] std::byte* slot(int rank, std::uint32_t half) const;
  [[nodiscard]] Channel& channel(int src, int dst) const;

  // Of each wait from now on.
  void set_timeout(Timeout timeout) { timeout_ = timeout; }

  // A send or recv is about to wait for `peer`.
  void begin_transfer(const CollectiveSignature& signature, int peer);

  // Begins a collective: publishes this rank's signature, meets all ranks, and compares:
  // MismatchError on every rank.
  void begin_collective(const CollectiveSignature& signature);
  void end_collective();
  // All ranks meet: what a rank wrote before is seen by all after.
  void meet();
  // Blocks until `ready` returns true; throws if the group is broken, even if it is. `ready` may
  // only look at the segment.
  template <class Ready>
  void wait_until(const Ready& ready) {
    if (!spin_until(ready)) sleep_until(ready);
    if (const std::exception_ptr error = recorded_error()) std::rethrow_exception(error);
  }
  // Tells a rank that something it may be waiting for has changed.
  void ring(int rank) const;

  // Records the first cause for all ranks and wakes them. Returns the error to throw: whoever was
  // first decides its text.
  std::exception_ptr fail(Cause cause, const std::string& text);
  // This rank takes part no more; its own waits throw.
  void leave();

 private:
  void create_segment(const GroupConfig& config);
  void open_segment(const GroupConfig& config);
  void map_segment(int fd);
  [[nodiscard]] RankControl& control(int rank) const;
  [[nodiscard]] bool all_arrived() const;
  template <class Ready>
  bool spin_until(const Ready& ready) const;
  void sleep_until(const std::function<bool()>& ready);
  void check_peers(const std::function<bool()>& ready);
  void check_peer(int other, const std::function<bool()>& ready);
  void check_peer_call(int other, const std::function<bool()>& ready);
  [[nodiscard]] bool is_awaited(int other) const;
  void start_watch();
  [[nodiscard]] std::exception_ptr recorded_error() const;
  [[noreturn]] void time_out();
  [[nodiscard]] std::string late_ranks() const;
  [[nodiscard]] std::string operation() const;

  int rank_;
  int world_size_;
  Timeout timeout_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::byte* memory_ = nullptr;
  std::size_t size_bytes_;
  std::uint32_t phase_ = 0;
  int spins_;
  std::optional<PeerWatch> watch_;
  Clock::time_point next_look_;        // at the processes
  std::uint64_t last_collective_ = 0;  // that this rank has begun
  CollectiveSignature current_;        // what an error message says is going on
  int current_peer_ = -1;              // of a send or recv; -1: all ranks take part
  std::atomic<bool> leaving_{false};
};

template <class Ready>
bool Context::spin_until(const Ready& ready) const {
  for (int i = 0; i <= spins_; ++i) {
    if (ready()) return true;
    relax();
  }
  return false;
}

}  // namespace ddp::shm
