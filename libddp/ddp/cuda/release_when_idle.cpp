// SPDX-License-Identifier: MIT
#include "ddp/cuda/release_when_idle.h"

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/run_until.h"
#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {
namespace {

using Release = std::function<void()>;

constexpr Timeout kPatience = std::chrono::seconds(10);

// The releases of one device that are waiting.
struct Backlog {
  std::mutex mutex;
  int overdue_waits = 0;
  std::vector<Release> releases;  // requested while a wait is overdue
};

// Guarded by the mutex of the device's Backlog.
struct Wait {
  bool has_ended = false;
  bool is_overdue = false;
};

// Never destroyed: a thread that waits for a device may outlive main().
Backlog& backlog_of(Device device) {
  static std::mutex mutex;
  static auto* const backlogs = new std::map<int, Backlog>;
  const std::lock_guard lock(mutex);
  return (*backlogs)[device.index];
}

// Errors are dropped: a device that has failed runs nothing any more.
void synchronize_current_device() {
  if (cudaDeviceSynchronize() != cudaSuccess) static_cast<void>(cudaGetLastError());
}

void wait_and_release(Device device, const Release& release, Backlog& backlog, Wait& wait) {
  const DeviceGuard guard(device);
  std::vector<Release> due = {release};
  while (!due.empty()) {
    synchronize_current_device();
    for (const Release& each : due) each();
    const std::lock_guard lock(backlog.mutex);
    due = std::exchange(backlog.releases, {});
    if (!due.empty()) continue;
    wait.has_ended = true;
    if (wait.is_overdue) --backlog.overdue_waits;
  }
}

// Leaves `release` to an overdue wait; false if there is none.
bool joins_backlog(Backlog& backlog, const Release& release) {
  const std::lock_guard lock(backlog.mutex);
  if (backlog.overdue_waits == 0) return false;
  backlog.releases.push_back(release);
  return true;
}

void note_overdue(Device device, Backlog& backlog, Wait& wait) {
  const std::lock_guard lock(backlog.mutex);
  if (wait.has_ended) return;
  wait.is_overdue = true;
  ++backlog.overdue_waits;
  logging::warning("[cuda] " + to_string(device) + " has not finished its work within " +
                   std::to_string(kPatience.count() / 1000) +
                   " s; none of its memory is freed until it does");
}

// True if the process is exiting and CUDA is shut down. Then no kernels run, and all device memory
// is freed.
bool is_shut_down() {
  int current = 0;
  const cudaError_t status = cudaGetDevice(&current);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status == cudaErrorCudartUnloading;
}

}  // namespace

void release_when_idle(Device device, Release release) noexcept {
  try {
    if (is_shut_down()) return;
    Backlog& backlog = backlog_of(device);
    if (joins_backlog(backlog, release)) return;
    const auto wait = std::make_shared<Wait>();
    const bool has_ended = run_until(Deadline::after(kPatience),
                                     [device, release = std::move(release), &backlog, wait] {
                                       wait_and_release(device, release, backlog, *wait);
                                     });
    if (!has_ended) note_overdue(device, backlog, *wait);
  } catch (const std::exception& error) {
    logging::warning("[cuda] memory of " + to_string(device) + " is not freed: " + describe(error));
  }
}

}  // namespace ddp::cu
