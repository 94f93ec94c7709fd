// SPDX-License-Identifier: MIT
#include "cuda_emulation/nccl_world.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::emulation {
namespace {

constexpr std::size_t kSlotBytes = std::size_t{64} << 10;

std::byte* bytes_of(const Buffer& buffer) { return static_cast<std::byte*>(buffer.data); }

}  // namespace

// Shared memory is zeroed when it is created, which this needs.
struct World::Segment {
  // From one rank to another.
  struct Pipe {
    std::atomic<std::size_t> size_bytes;  // 0: empty; the sender may write
    std::byte bytes[kSlotBytes];
  };

  std::atomic<int> joined, arrived, round;
  std::atomic<bool> is_aborted;  // by some rank
  char gpu[kMaxRanks][128];
  std::byte slot[kMaxRanks][kSlotBytes];
  Pipe pipe[kMaxRanks][kMaxRanks];
};

std::shared_ptr<SharedMemory> World::create_memory() {
  return SharedMemory::create(sizeof(Segment));
}

World::World(std::shared_ptr<SharedMemory> memory, int rank, int size, const std::string& gpu)
    : memory_(std::move(memory)),
      segment_(reinterpret_cast<Segment*>(memory_->data())),
      rank_(rank),
      size_(size) {
  gpu.copy(segment_->gpu[rank], sizeof segment_->gpu[rank] - 1);
  ++segment_->joined;
  while (segment_->joined < size_) pause();
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && gpu == segment_->gpu[other]) {
      throw DuplicateGpu("Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " +
                         std::to_string(other) + " both on " + gpu);
    }
  }
}

void World::abort() {
  is_aborted_ = true;
  segment_->is_aborted = true;
}

// Like NCCL's waits, a wait lasts until the communicator is aborted.
void World::pause() const {
  if (is_aborted_) throw Aborted{};
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void World::barrier() {
  const int round = segment_->round;
  if (++segment_->arrived == size_) {
    segment_->arrived = 0;
    ++segment_->round;
  }
  while (segment_->round == round) {
    if (segment_->is_aborted && !is_aborted_) return;
    pause();
  }
}

Buffer World::slot(int rank, std::size_t count, DType dtype) const {
  return {segment_->slot[rank], count, dtype};
}

void World::share(const Buffer& input, const Use& use) {
  const std::size_t piece = kSlotBytes / size_of(input.dtype);
  for (std::size_t first = 0; first < input.count; first += piece) {
    const std::size_t count = std::min(piece, input.count - first);
    if (input.data != nullptr) {
      const Buffer part = input.slice(first, count);
      std::memcpy(segment_->slot[rank_], part.data, part.size_bytes());
    }
    barrier();
    use(first, count);
    barrier();
  }
}

void World::reduce_slots(const Buffer& target, ReduceOp op) const {
  cpu::copy(slot(0, target.count, target.dtype), target);
  for (int rank = 1; rank < size_; ++rank) {
    cpu::reduce(slot(rank, target.count, target.dtype), target, op);
  }
}

void World::all_reduce(const Buffer& input, const Buffer& output, ReduceOp op) {
  share(input, [&](std::size_t first, std::size_t count) {
    reduce_slots(output.slice(first, count), op);
  });
}

void World::reduce(const Buffer& input, const Buffer& output, ReduceOp op, int root) {
  share(input, [&](std::size_t first, std::size_t count) {
    if (rank_ == root) reduce_slots(output.slice(first, count), op);
  });
}

void World::broadcast(const Buffer& input, const Buffer& output, int root) {
  Buffer given = input;
  if (rank_ != root) given.data = nullptr;
  share(given, [&](std::size_t first, std::size_t count) {
    cpu::copy(slot(root, count, input.dtype), output.slice(first, count));
  });
}

void World::all_gather(const Buffer& input, const Buffer& output) {
  share(input, [&](std::size_t first, std::size_t count) {
    for (int rank = 0; rank < size_; ++rank) {
      const std::size_t begin = static_cast<std::size_t>(rank) * input.count + first;
      cpu::copy(slot(rank, count, input.dtype), output.slice(begin, count));
    }
  });
}

void World::reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) {
  for (int root = 0; root < size_; ++root) {
    reduce(input.slice(static_cast<std::size_t>(root) * output.count, output.count), output, op,
           root);
  }
}

std::size_t World::try_send(const Buffer& input, std::size_t done, int peer) {
  Segment::Pipe& pipe = segment_->pipe[rank_][peer];
  if (pipe.size_bytes != 0) return 0;
  const std::size_t part = std::min(kSlotBytes, input.size_bytes() - done);
  std::memcpy(pipe.bytes, bytes_of(input) + done, part);
  pipe.size_bytes = part;
  return part;
}

std::size_t World::try_recv(const Buffer& output, std::size_t done, int peer) {
  Segment::Pipe& pipe = segment_->pipe[peer][rank_];
  const std::size_t part = std::min<std::size_t>(pipe.size_bytes, output.size_bytes() - done);
  if (part == 0) return 0;
  std::memcpy(bytes_of(output) + done, pipe.bytes, part);
  pipe.size_bytes = 0;
  return part;
}

}  // namespace ddp::emulation
