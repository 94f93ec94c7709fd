// SPDX-License-Identifier: MIT
//
// Ranks as threads, each with a GPU and a NCCL group of its own.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/nccl_process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "support/run_ranks.h"

namespace ddp::test {

// Float elements on a device; `stream` orders what is done with them.
class Floats {
 public:
  Floats(std::size_t count, Device device)
      : memory_(cu::allocate_device(count * sizeof(float), device)),
        count_(count),
        device_(device) {}

  Buffer buffer() const { return {memory_.data(), count_, DType::kFloat32, device_}; }

  void fill(double value, Stream stream) { cu::fill(buffer(), value, stream); }

  // Blocks until `stream` has run.
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

// Runs `body` on every rank of a group over all visible GPUs, at most four.
inline void run_nccl_ranks(Timeout timeout, const RankBody& body) {
  const int world_size = std::min(cu::device_count(), 4);
  HashStore store;
  run_ranks(world_size, [&](int rank) {
    GroupConfig config;
    config.store = store.clone();
    config.rank = rank;
    config.world_size = world_size;
    config.device = cuda_device(rank);
    config.timeout = timeout;
    config.start_timeout = timeout;
    const auto group = make_nccl_process_group(config);
    const cu::OwnedStream stream(config.device);
    body(*group, stream.view());
  });
}

}  // namespace ddp::test
