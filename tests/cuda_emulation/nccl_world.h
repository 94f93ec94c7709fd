// SPDX-License-Identifier: MIT
//
// The ranks of an emulated NCCL communicator, threads or processes, which communicate through
// shared memory. Operations block the thread of their stream, and throw Aborted after abort(). As
// with NCCL, whose kernels leave their waits then but signal their peers all the same, an abort
// also lets the others' collectives end, with values that mean nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"
#include "ddp/base/system/shared_memory.h"

namespace ddp::emulation {

// Operations block their thread, that of a stream, and throw Aborted after abort().
class World {
 public:
  static constexpr int kMaxRanks = 8;

  struct Aborted {};

  // Two ranks use the same GPU, which NCCL refuses.
  struct DuplicateGpu : std::runtime_error {
    using runtime_error::runtime_error;
  };

  [[nodiscard]] static std::shared_ptr<SharedMemory> create_memory();
  // Waits until all `size` ranks have connected. Throws DuplicateGpu if two of them name the same
  // GPU.
  World(std::shared_ptr<SharedMemory> memory, int rank, int size, const std::string& gpu);

  void abort();
  void all_reduce(const Buffer& input, const Buffer& output, ReduceOp op);
  void reduce(const Buffer& input, const Buffer& output, ReduceOp op, int root);
  void broadcast(const Buffer& input, const Buffer& output, int root);
  void all_gather(const Buffer& input, const Buffer& output);
  void reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op);
  // Transfer a part of the bytes, from `done` on, if the other side is ready. Return the number of
  // bytes.
  std::size_t try_send(const Buffer& input, std::size_t done, int peer);
  std::size_t try_recv(const Buffer& output, std::size_t done, int peer);
  // Yields the CPU, in a loop that waits for another rank.
  void pause() const;

 private:
  struct Segment;
  // Processes elements [first, first + count), which lie in every rank's slot during the call.
  using Use = std::function<void(std::size_t first, std::size_t count)>;

  void barrier();
  void share(const Buffer& input, const Use& use);
  [[nodiscard]] Buffer slot(int rank, std::size_t count, DType dtype) const;
  void reduce_slots(const Buffer& target, ReduceOp op) const;

  std::shared_ptr<SharedMemory> memory_;
  Segment* segment_;
  int rank_, size_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace ddp::emulation
