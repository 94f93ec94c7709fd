// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl_watchdog.h"

#include <fmt/core.h>

#include <utility>

#include "ddp/base/error.h"
#include "ddp/collectives/nccl_failure.h"
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

constexpr Timeout kInterval{100};

}  // namespace

NcclWatchdog::NcclWatchdog(const Watched& watched)
    : watched_(watched),
      who_(fmt::format("group \"{}\" on rank {}", watched.config.name, watched.config.rank)),
      thread_("ddp-nccl", kInterval, [this] { return look(); }) {}

// A CUDA query may block behind a kernel that waits for a dead peer and that only the abort ends.
// So there is no query between noticing an error and the abort.
bool NcclWatchdog::look() {
  FirstError& first_error = watched_.first_error;
  try {
    if (!first_error.is_set()) {
      look_for_async_error(watched_.communicator, first_error, watched_.roll,
                           "operations of " + who_);
    }
    if (!first_error.is_set()) look_at_operations();
  } catch (const std::exception& error) {
    first_error.set(CudaError(fmt::format("[nccl] watch {}: {}", who_, describe(error))));
  }
  if (!first_error.is_set()) return true;
  watched_.recorder.broken();
  watched_.communicator.abort();
  return false;
}

void NcclWatchdog::look_at_operations() {
  const cu::DeviceGuard guard(watched_.config.device);
  // Otherwise a query from this thread would invalidate a graph capture in another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  DDP_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  look_at_oldest_operation();
  note_done();
}

void NcclWatchdog::look_at_oldest_operation() {
  const std::uint64_t oldest = watched_.operations.oldest_unfinished();
  if (oldest == 0 || oldest != oldest_) {
    oldest_ = oldest;
    oldest_since_ = Clock::now();
  } else if (Clock::now() - oldest_since_ > watched_.operations.timeout(oldest)) {
    watched_.first_error.set(TimeoutError(timeout_sentence(
        "[nccl] " + who_, watched_.operations.timeout(oldest_),
        watched_.recorder.hang().diagnosis(), to_string(watched_.operations.signature(oldest_)))));
  }
}

void NcclWatchdog::note_done() {
  const std::uint64_t completed = watched_.operations.completed();
  if (std::exchange(done_, completed) != completed) {
    watched_.recorder.done(completed, Clock::now());
  }
}

}  // namespace ddp
