// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/hang/single_writer_ring.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// Addresses from `begin` up to `end`.
struct MemoryRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] bool overlaps(const MemoryRange& other) const {
    return begin < other.end && other.begin < end;
  }
};

// The memory of an operation: these addresses, and of an operation with more ranges than fit here
// some between them.
class MemoryRanges {
 public:
  void add(const MemoryRange& range);
  [[nodiscard]] bool overlap(const MemoryRange& memory) const;

 private:
  std::array<MemoryRange, 6> ranges_;  // those in use first
};

// The events of operations that run one after the other on one stream; made once and reused in
// turn. Operations are numbered 1, 2, ...
//
// Thread safety: begin(), order_behind() and record() from one thread at a time; the rest from any
// thread.
class EventRing {
 public:
  static constexpr std::uint64_t kCapacity = 256;

  explicit EventRing(Device device);

  // The number of the operation that begin() announces next.
  [[nodiscard]] std::uint64_t next() const { return begun_.load() + 1; }
  // Announces operation next(). It reuses the entry of the operation kCapacity before it, which
  // must be done. The operation touches no memory outside of `operands`.
  void begin(const CollectiveSignature& signature, Timeout timeout,
             const MemoryRanges& operands = {});
  // Orders the announced operation, which will be enqueued on `stream`, behind what `producer`
  // holds now. An operation may have several producers.
  void order_behind(Stream producer, Stream stream);
  // Call it when the announced operation has been enqueued completely on `stream`.
  void record(Stream stream);
  // Call it when that failed: some of it may have been enqueued, and uses its operands until it
  // ends.
  void record_some(Stream stream) noexcept;

  [[nodiscard]] bool is_recorded(std::uint64_t sequence) const;
  [[nodiscard]] bool done(std::uint64_t sequence);
  // True once the last producer of a recorded operation that is not done has reached it. Until then
  // the operation cannot run, whatever the other ranks do.
  [[nodiscard]] bool is_reached(std::uint64_t sequence);
  // Orders `consumer` behind a recorded operation.
  void make_wait(std::uint64_t sequence, Stream consumer);
  // True if all recorded operations are done.
  [[nodiscard]] bool idle() { return done(recorded_.load()); }
  // True if a recorded operation that is not done may touch this memory.
  [[nodiscard]] bool uses(const MemoryRange& memory);
  // The oldest operation that is announced and not done; 0 if there is none.
  [[nodiscard]] std::uint64_t oldest_unfinished();
  // The last operation that is known to be done; all operations before it are done, too.
  [[nodiscard]] std::uint64_t completed() const { return completed_.load(); }
  // The signature and timeout of an operation that is not done. If it is done meanwhile and its
  // entry was reused, the signature is empty and the timeout endless.
  [[nodiscard]] CollectiveSignature signature(std::uint64_t sequence) const;
  [[nodiscard]] Timeout timeout(std::uint64_t sequence) const;

 private:
  // Readers take no lock, so that begin() needs none.
  struct Announced {
    CollectiveSignature signature;
    Timeout::rep timeout = kLongestTimeout.count();
    MemoryRanges operands;
  };

  struct Events {
    cu::Event reached;  // by the producer
    cu::Event done;
  };

  Events& events(std::uint64_t sequence) { return events_[sequence % kCapacity]; }

  std::array<Events, kCapacity> events_;
  SingleWriterRing<Announced> announced_{kCapacity};  // by sequence
  std::atomic<std::uint64_t> begun_ = 0;
  std::atomic<std::uint64_t> recorded_ = 0;
  std::atomic<std::uint64_t> completed_ = 0;
};

}  // namespace ddp
