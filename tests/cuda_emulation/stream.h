// SPDX-License-Identifier: MIT
//
// A stream: a thread of the host that runs what was put on it, in order and as late as it may. Work
// begins when something waits for it, or when its patience is over: without that, two processes
// that wait for each other by NCCL, and of which the hosts only ask, would get no further. So what
// should have waited for an event, and did not, runs first and finds the wrong values.
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
  static constexpr Patience kLate{10};
  static constexpr Patience kAtOnce{0};

  explicit Queue(Patience patience) : patience_(patience) {}
  // Its thread ends after close(), with the last work.
  static std::shared_ptr<Queue> open(Patience patience);

  // Returns the work's position, from 1 on.
  std::uint64_t push(std::function<void()> work);
  void close();
  [[nodiscard]] bool has_run(std::uint64_t position);
  // Makes the work up to `position` run now and waits for its end.
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

// That of a handle; of null and of cudaStreamPerThread, too.
[[nodiscard]] Queue& queue_of(cudaStream_t stream);

[[nodiscard]] cudaError_t launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                                 const std::function<void()>& thread);

}  // namespace ddp::emulation
