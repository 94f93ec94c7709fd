// SPDX-License-Identifier: MIT
//
// Ranks with an NCCL group: threads with a GPU each or, if ddp-launch started the test, processes,
// which share a GPU with --oversubscribe.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/nccl/nccl_process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "support/run_ranks.h"

namespace ddp::test {

// An array of floats on a device. Its functions enqueue their work on `stream`.
class Floats {
 public:
  Floats(std::size_t count, Device device)
      : memory_(cu::allocate_device(count * sizeof(float), device)),
        count_(count),
        device_(device) {}

  Buffer buffer() const { return {memory_.data(), count_, DType::kFloat32, device_}; }

  void fill(double value, Stream stream) { cu::fill(buffer(), value, stream); }

  // Blocks until the work on `stream` has run.
  std::vector<float> read(Stream stream) const {
    std::vector<float> host(count_);
    const cu::DeviceGuard guard(device_);
    cu::copy_async(host.data(), memory_.data(), count_ * sizeof(float), stream);
    cu::synchronize(stream);
    return host;
  }

  bool all_equal(float value, Stream stream) const {
    const std::vector<float> host = read(stream);
    return std::all_of(host.begin(), host.end(), [&](float f) { return f == value; });
  }

 private:
  Allocation memory_;
  std::size_t count_;
  Device device_;
};

using RankBody = std::function<void(ProcessGroup& group, Stream stream)>;

// The number of ranks; without a launcher, one for each visible GPU, at most four.
inline int nccl_world_size() {
  const char* launched = std::getenv("WORLD_SIZE");
  return launched != nullptr ? std::atoi(launched) : std::min(cu::device_count(), 4);
}

// Runs `body` on every rank. A launched process is one rank, so all processes must call this
// equally often and make the same assertions.
inline void run_nccl_ranks(Timeout timeout, const RankBody& body) {
  const auto run = [&](ProcessGroup& group) {
    const cu::DeviceGuard guard(group.device());
    const cu::OwnedStream stream(group.device());
    try {
      body(group, stream.view());
    } catch (const std::exception& error) {
      group.abort(describe(error));  // otherwise the other ranks would wait for this one
      throw;
    }
  };
  if (std::getenv("WORLD_SIZE") != nullptr) {
    return run(*init_process_group({.backend = Backend::kNccl, .timeout = timeout}));
  }
  HashStore store;
  run_ranks(nccl_world_size(), [&](int rank) {
    GroupConfig config;
    config.store = store.clone();
    config.rank = rank;
    config.world_size = nccl_world_size();
    config.device = cuda_device(rank);
    config.timeout = timeout;
    config.start_timeout = timeout;
    run(*make_nccl_process_group(config));
  });
}

}  // namespace ddp::test
