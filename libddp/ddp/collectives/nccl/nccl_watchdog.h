// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "ddp/base/threads/life_sign.h"
#include "ddp/base/threads/periodic_thread.h"
#include "ddp/base/time.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/loss_watch.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/nccl/event_ring.h"
#include "ddp/collectives/nccl/nccl_communicator.h"
#include "ddp/collectives/nccl/nccl_failure.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// Watches one group for other ranks' errors, for NCCL's asynchronous errors, for ranks that died or
// left without their part of an operation, and for an operation that has been the oldest unfinished
// one for longer than its timeout. NCCL does not notice the death of a peer behind NVLink or shared
// memory; its kernels spin forever. So a dead rank is found by the ranks of its host, and a rank
// that died alone on its host only if NCCL's network reports a broken connection. When the group
// breaks, on this rank or another, the watchdog aborts the communicator and ends.
//
// There are three threads, since CUDA may not answer before an abort: while one thread of the
// process waits for room in a stream that stands behind a hung collective, the driver makes others
// wait, too. Nor does the store answer at once if its host hangs. So one thread asks CUDA which
// operations have finished, and tells the recorder; one asks the store for other ranks' errors, and
// which ranks are lost; and the one that guards asks NCCL alone, and so can abort meanwhile.
class NcclWatchdog {
 public:
  struct Watched {
    NcclCommunicator& communicator;
    EventRing& operations;
    FirstError& first_error;
    FlightRecorder& recorder;
    PeerRoll& roll;  // whose lost() the watchdog calls
    const GroupConfig& config;
    const GroupNames& names;
    // How long CUDA may take to answer; loading a library may take it seconds. Then the oldest
    // operation that is not known to be done has its timeout by the clock alone.
    Timeout patience_with_cuda = std::chrono::seconds(10);
  };

  // Destroying it waits for the threads: for an abort, and for a store that does not answer as long
  // as FirstError does.
  explicit NcclWatchdog(const Watched& watched);

 private:
  bool listen();
  bool guard();
  [[nodiscard]] Activity activity() const;
  [[nodiscard]] bool end_if_broken();
  void look_without_cuda();
  bool ask();
  void ask_cuda();
  // `oldest` is the oldest unfinished operation, 0 for none.
  void look_at(std::uint64_t oldest, LifeSign& known);
  void note_done();

  Watched watched_;
  std::string origin_;
  std::atomic<Clock::time_point>
      asked_{};                 // when ask_cuda() began; the epoch while it does not run
  std::uint64_t done_ = 0;      // the last recorded as done; of the thread that asks
  LifeSign by_cuda_;            // likewise: the number of the oldest unfinished operation
  LifeSign by_clock_;           // of the thread that guards: the same
  LossWatch loss_watch_;        // of the thread that listens
  bool has_read_roll_ = false;  // likewise
  // Last, since they use the others. The one that asks ends first, since the one that guards may
  // have to abort what it waits for.
  PeriodicThread listen_;
  PeriodicThread guard_;
  PeriodicThread ask_;
};

}  // namespace ddp
