// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <nccl.h>

#include <atomic>
#include <mutex>

#include "ddp/base/device.h"
#include "ddp/base/threads/timed_mutex.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/nccl/nccl_api.h"

namespace ddp {

// Owns an ncclComm_t. It is blocking (config.blocking = 1), because a non-blocking one hands its
// work to a thread, so that an event recorded after a collective could complete before its kernel.
// Calls that may hang (init, destroy) run on a helper thread under a deadline; when that passes,
// the thread is abandoned together with what it uses.
//
// Thread-safe. Calls exclude each other, but abort() does not wait for a call that hangs.
class NcclCommunicator {
 public:
  // Collective. NCCL's id is passed through config.store under "nccl_id". Throws TimeoutError after
  // config.start_timeout, and up to 10 s later if what was made by then does not close. Tests may
  // pass another NcclApi.
  explicit NcclCommunicator(const GroupConfig& config, const NcclApi& nccl = open_nccl());
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  using End = decltype(&ncclCommAbort);

  [[nodiscard]] const NcclApi& api() const { return nccl_; }

  // Runs f(ncclComm_t). Throws CudaError after abort() or destroy().
  template <class F>
  void call(F&& f) {
    const std::lock_guard lock(calls_);
    f(open_handle());
  }

  // The asynchronous error of earlier calls; ncclSuccess for a closed communicator.
  [[nodiscard]] ncclResult_t async_state();

  // Stops running kernels and frees NCCL's resources. Never throws; a second call does nothing.
  void abort() noexcept;
  // Like abort(), for a communicator without work left; peers may still be using theirs.
  void destroy() noexcept;

 private:
  [[nodiscard]] ncclComm_t open_handle();
  void end(End how) noexcept;

  NcclApi nccl_;
  Device device_;
  TimedMutex calls_;  // held during calls: a caller normally finds it free
  std::mutex query_;  // held while NCCL is asked for its state, which does not block
  std::atomic<ncclComm_t> handle_ = nullptr;
};

}  // namespace ddp
