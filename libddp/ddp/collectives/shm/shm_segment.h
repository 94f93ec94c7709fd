// SPDX-License-Identifier: MIT
//
// The memory that all ranks of a shm group share; every part is zero at first:
//
//   segment := Header, Progress[kPosts], RankControl[world], Post[world][kPosts],
//              Channel[world][world] by (src, dst), slot[world][2]
//
// Collective k of the group (1, 2, ...) uses the posts and the progress at k % kPosts. Collective k
// + kPosts uses them again; no rank posts it before all ranks have finished k.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ddp/base/system/shared_memory.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/peers/cpu_sharing.h"

namespace ddp::shm {

inline constexpr std::uint64_t kPosts = 32;
inline constexpr std::size_t kPostBytes = std::size_t{16} << 10;
inline constexpr std::size_t kSlotBytes = std::size_t{512} << 10;
inline constexpr std::size_t kChannelBlockBytes = std::size_t{64} << 10;
inline constexpr std::uint32_t kChannelBlocks = 2;

enum class CauseState : std::uint32_t { kNone = 0, kBeingWritten, kComplete };

// The first cause of the group's end, written by one rank, read by all.
struct Header {
  std::uint64_t layout;  // equal in equal builds
  std::atomic<CauseState> cause_state;
  char note[1024];  // see GroupFailure
};

// How many chunks of a collective are done, and when; see shm_in_place.h. Times are on the host's
// steady clock.
struct Progress {
  alignas(64) std::atomic<std::uint64_t> done;
  std::atomic<Clock::rep> began;  // time of the first chunk; 0: none yet
  std::atomic<Clock::rep> ended;  // time of the last chunk
};

// What a rank's peers read. The counters are numbers of collectives. Peers spin on `posted`, so it
// has its own cache lines: stores to anything else there would be slowed down.
struct RankControl {
  alignas(128) std::atomic<std::uint64_t> posted;
  alignas(128) std::atomic<std::uint64_t> finished;
  std::atomic<std::uint64_t> brought;  // the last whose operand was copied to shared memory
  std::atomic<std::uint64_t> running;  // the one that this rank is in; 0: in none
  std::atomic<std::uint32_t> phase;    // how many times this rank has arrived; see Member::barrier
  std::atomic<std::uint32_t> left;     // its group was destroyed
  pid_t pid;
  CpuSet allowed_cpus;
  alignas(128) std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> sleeping;
};

// The place of an operand in memory of its rank that others can map. A null block: no such place.
struct Region {
  std::uint64_t block = 0;  // numbered by the owning rank: 1, 2, ...
  std::uint64_t size_bytes = 0;
  std::uint64_t offset_bytes = 0;
  ino_t inode = 0;
  int fd = -1;
};

// A rank's call of one collective.
struct Post {
  alignas(64) CollectiveSignature signature;
  Region operand;
  Region brought;                                // see RankControl::brought
  alignas(64) std::atomic<std::uint64_t> taken;  // how many chunks of this rank's part are taken
  alignas(64) std::byte elements[kPostBytes];    // holds a small operand itself
};

// One direction between two ranks: a ring of blocks, one writer, one reader.
struct Channel {
  alignas(64) std::atomic<std::uint32_t> written;  // blocks
  alignas(64) std::atomic<std::uint32_t> read;     // blocks
  CollectiveSignature signatures[kChannelBlocks];  // of each block's message
  alignas(64) std::byte blocks[kChannelBlocks][kChannelBlockBytes];
};

class Segment {
 public:
  // Rank 0 makes the segment and publishes it in the store; returns when all ranks have mapped it.
  explicit Segment(const GroupConfig& config);

  [[nodiscard]] int world_size() const { return static_cast<int>(ranks_); }
  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(memory_->data()); }
  [[nodiscard]] Progress& progress(std::uint64_t collective) const {
    return progress_[collective % kPosts];
  }
  [[nodiscard]] RankControl& control(int rank) const { return controls_[rank]; }
  [[nodiscard]] Post& post(int rank, std::uint64_t collective) const {
    return posts_[static_cast<std::size_t>(rank) * kPosts + collective % kPosts];
  }
  [[nodiscard]] Channel& channel(int src, int dst) const {
    return channels_[static_cast<std::size_t>(src) * ranks_ + static_cast<std::size_t>(dst)];
  }
  [[nodiscard]] std::byte* slot(int rank, std::uint32_t half) const {
    return slots_ + (static_cast<std::size_t>(rank) * 2 + half) * kSlotBytes;
  }

 private:
  void create(const GroupConfig& config);
  void open(const GroupConfig& config);
  void find_parts();
  void introduce(int rank) const;

  std::size_t ranks_;
  std::shared_ptr<SharedMemory> memory_;
  Progress* progress_ = nullptr;
  RankControl* controls_ = nullptr;
  Post* posts_ = nullptr;
  Channel* channels_ = nullptr;
  std::byte* slots_ = nullptr;
};

}  // namespace ddp::shm
