// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_watchdog.h"

#include <utility>

#include "ddp/base/error.h"
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

constexpr Timeout kInterval{100};

// A rank that died is told in a second: within kSearchPatience and two of FirstError's periods.
constexpr Timeout kSearchPatience{250};
// An operation that a dead rank has completed is known to be done here by then.
constexpr Timeout kDeathGrace{250};
// For the peer of a send or recv, which may have done its part before it left. A message that it
// sent has arrived by then, unless this rank's device is still busy with earlier work.
constexpr Timeout kLossGrace{5000};

}  // namespace

NcclWatchdog::NcclWatchdog(const Watched& watched)
    : watched_(watched),
      origin_("[nccl] " + watched.names.self()),
      by_cuda_(2 * watched.patience_with_cuda),
      by_clock_(2 * watched.patience_with_cuda),
      loss_watch_(watched.config,
                  {.backend = "nccl",
                   .find_lost = [&roll = watched.roll] { return roll.lost(); },
                   .patience = kSearchPatience,
                   .for_dead = kDeathGrace,
                   .for_unknown = kLossGrace},
                  watched.recorder, watched.roll, watched.first_error),
      listen_("ddp-nccl-store", FirstError::kPeriod, [this] { return listen(); }),
      guard_("ddp-nccl", kInterval, [this] { return guard(); }),
      ask_("ddp-nccl-ask", kInterval, [this] { return ask(); }) {}

// After the first operation, all ranks are in the roll. This rank reads it while it can: the store
// may be lost together with the rank that hosts it.
bool NcclWatchdog::listen() {
  if (!has_read_roll_ && watched_.operations.completed() > 0) {
    static_cast<void>(watched_.roll.lost());
    has_read_roll_ = true;
  }
  if (!watched_.first_error.poll()) loss_watch_.look();
  return !watched_.first_error.is_set();
}

bool NcclWatchdog::guard() {
  FirstError& first_error = watched_.first_error;
  try {
    if (!first_error.is_set()) {
      look_for_async_error(watched_.communicator, first_error, watched_.roll, watched_.recorder,
                           [this] { return activity(); });
    }
    if (!first_error.is_set()) look_without_cuda();
  } catch (const std::exception& error) {
    first_error.set(CudaError(origin_ + " cannot watch its operations" + watched_.names.of_group() +
                              ": " + describe(error)));
  }
  return !end_if_broken();
}

Activity NcclWatchdog::activity() const {
  const auto pending = watched_.recorder.oldest_pending();
  if (!pending) {
    return {.rank = watched_.names.self(), .operation = "group \"" + watched_.config.name + "\""};
  }
  return activity_in(pending->operations.front().signature, watched_.recorder, watched_.names);
}

// Ends the operations of a broken group at once: a peer that comes late must not complete them.
bool NcclWatchdog::end_if_broken() {
  if (!watched_.first_error.is_set()) return false;
  watched_.recorder.broken();
  watched_.communicator.abort();
  return true;
}

// While CUDA answers, it decides which operation is the oldest one.
void NcclWatchdog::look_without_cuda() {
  const Clock::time_point asked = asked_;
  const bool is_silent =
      asked != Clock::time_point() && Clock::now() - asked > watched_.patience_with_cuda;
  const std::uint64_t first = watched_.operations.completed() + 1;
  const bool is_pending = first < watched_.operations.next();
  look_at(is_silent && is_pending ? first : 0, by_clock_);
}

bool NcclWatchdog::ask() {
  if (end_if_broken()) return false;
  asked_ = Clock::now();
  try {
    ask_cuda();
  } catch (const std::exception& error) {
    break_group(watched_.first_error, watched_.roll, watched_.recorder, activity(),
                describe(error));
  }
  asked_ = Clock::time_point();
  return !end_if_broken();
}

void NcclWatchdog::ask_cuda() {
  const cu::DeviceGuard guard(watched_.config.device);
  // Otherwise a query from this thread would invalidate a graph capture in another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  DDP_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  look_at(watched_.operations.oldest_unfinished(), by_cuda_);
  note_done();
}

void NcclWatchdog::look_at(std::uint64_t oldest, LifeSign& known) {
  const Timeout age = known.silence(oldest);
  if (oldest == 0 || age <= watched_.operations.timeout(oldest)) return;
  watched_.first_error.set(TimeoutError(timeout_sentence(
      origin_, watched_.operations.timeout(oldest), watched_.recorder,
      to_string(watched_.operations.signature(oldest)) + watched_.names.of_group())));
}

void NcclWatchdog::note_done() {
  const std::uint64_t completed = watched_.operations.completed();
  if (std::exchange(done_, completed) != completed) {
    watched_.recorder.done(completed, Clock::now());
  }
}

}  // namespace ddp
