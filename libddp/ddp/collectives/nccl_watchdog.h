// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <string>

#include "ddp/base/periodic_thread.h"
#include "ddp/collectives/event_ring.h"
#include "ddp/collectives/first_error.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/collectives/nccl_communicator.h"
#include "ddp/collectives/peer_roll.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// A thread that watches one group for NCCL's asynchronous errors, and for an operation that has
// been the oldest unfinished one for longer than its timeout. NCCL does not notice the death of a
// peer behind NVLink or shared memory; its kernels spin forever. The thread also records finished
// operations in the recorder. When the group breaks, on this rank or another, it aborts the
// communicator and ends.
class NcclWatchdog {
 public:
  struct Watched {
    NcclCommunicator& communicator;
    EventRing& operations;
    FirstError& first_error;
    FlightRecorder& recorder;
    const PeerRoll& roll;
    const GroupConfig& config;
  };

  // Destroying it waits for the thread, at most as long as an abort takes.
  explicit NcclWatchdog(const Watched& watched);

 private:
  bool look();
  void look_at_operations();
  void look_at_oldest_operation();
  void note_done();

  Watched watched_;
  std::string who_;
  std::uint64_t done_ = 0;    // the last operation that was recorded as done
  std::uint64_t oldest_ = 0;  // the oldest unfinished operation, and since when it is
  Clock::time_point oldest_since_;
  PeriodicThread thread_;  // last: it uses the others
};

}  // namespace ddp
