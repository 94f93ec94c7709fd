// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "ddp/collectives/event_ring.h"
#include "ddp/collectives/first_error.h"
#include "ddp/collectives/nccl_communicator.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// A thread that watches one group for NCCL's asynchronous errors and for an operation that has been
// the oldest unfinished one for longer than the group's timeout: NCCL itself does not notice a peer
// that died behind NVLink or shared memory, its kernels spin for ever. When the group breaks, here
// or elsewhere, the thread aborts the communicator and ends.
class NcclWatchdog {
 public:
  struct Watched {
    NcclCommunicator& communicator;
    EventRing& operations;
    FirstError& first_error;
    const GroupConfig& config;
  };

  explicit NcclWatchdog(const Watched& watched);
  // Waits for the thread: at most for an abort.
  ~NcclWatchdog() = default;

 private:
  void run(const std::stop_token& stop);
  void look_at_nccl();
  void look_at_oldest_operation();

  Watched watched_;
  std::string who_;
  std::uint64_t oldest_ = 0;  // the oldest unfinished operation, and since when it is
  Clock::time_point oldest_since_;
  std::mutex mutex_;
  std::condition_variable_any sleeping_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace ddp
