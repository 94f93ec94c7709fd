// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <nccl.h>

#include <mutex>

#include "ddp/base/device.h"
#include "ddp/base/timed_mutex.h"
#include "ddp/collectives/nccl_api.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// Owns an ncclComm_t. It is blocking (config.blocking = 1): a non-blocking one hands its work to a
// thread, so that an event recorded after a collective could come before its kernel. What may hang
// (making, ending) runs on a helper thread under a deadline; when that passes, the thread is left
// alone with what it uses.
//
// Thread-safe. Calls wait for each other, but abort() does not wait for a call that hangs.
class NcclCommunicator {
 public:
  // Collective. NCCL's id travels through config.store under "nccl_id". Throws TimeoutError after
  // config.start_timeout. A test may have an NCCL of its own.
  explicit NcclCommunicator(const GroupConfig& config, const NcclApi& nccl = open_nccl());
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] const NcclApi& api() const { return nccl_; }

  // Runs f(ncclComm_t). Throws CudaError after abort() or destroy().
  template <class F>
  void call(F&& f) {
    const std::lock_guard lock(calls_);
    f(open_handle());
  }

  // What went wrong behind the calls; ncclSuccess for a closed communicator.
  [[nodiscard]] ncclResult_t async_state();

  // Ends running kernels and frees what NCCL holds. Never throws; nothing happens the second time.
  void abort() noexcept;
  // The same for a communicator without work left: peers may still be at theirs.
  void destroy() noexcept;

 private:
  using End = decltype(&ncclCommAbort);

  [[nodiscard]] ncclComm_t open_handle();
  void end(End how) noexcept;

  NcclApi nccl_;
  Device device_;
  TimedMutex calls_;         // held during calls
  std::mutex handle_mutex_;  // held briefly; guards handle_
  ncclComm_t handle_ = nullptr;
};

}  // namespace ddp
