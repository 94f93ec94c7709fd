// SPDX-License-Identifier: MIT
//
// A stream is a host thread that runs the enqueued work in order and as late as possible: when
// something waits for it, or when its patience is over. Without patience, two processes that wait
// for each other through NCCL, and whose hosts only poll, would not get any further. Work that
// should have waited for an event, but did not, therefore runs too early and reads wrong values.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace ddp::emulation {

using Clock = std::chrono::steady_clock;

class Queue {
 public:
  using Patience = std::chrono::milliseconds;
  static constexpr Patience kAtOnce{0};

  explicit Queue(Patience patience) : patience_(patience) {}
  // Creates a queue. Its thread ends after close(), when the last work has run.
  static std::shared_ptr<Queue> open(Patience patience);

  // Returns the work's position, from 1 on.
  std::uint64_t push(std::function<void()> work);
  void close();
  // The position of the work that was pushed last; 0 if there was none.
  [[nodiscard]] std::uint64_t last();
  [[nodiscard]] bool has_run(std::uint64_t position);
  // Makes the work up to `position` run now, and waits until it has ended.
  void wait(std::uint64_t position);
  void wait_for_all();

 private:
  struct Entry {
    std::function<void()> work;
    Clock::time_point pushed;
  };

  void run();
  void await(std::unique_lock<std::mutex>& lock, std::uint64_t position);

  const Patience patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::uint64_t pushed_ = 0, demanded_ = 0, done_ = 0;
  bool is_closed_ = false;
};

// The queue of a handle, which may also be null or cudaStreamPerThread.
[[nodiscard]] Queue& queue_of(cudaStream_t stream);

[[nodiscard]] cudaError_t launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                                 const std::function<void()>& thread);

}  // namespace ddp::emulation
