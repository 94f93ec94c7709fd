// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/fork_check.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/system/dynamic_library.h"
#include "ddp/base/system/process_status.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/base/time.h"

namespace ddp {
namespace {

constexpr Timeout kThreadsEnd{500};
constexpr int kCudaNotInitialized = 3;  // CUDA_ERROR_NOT_INITIALIZED of cuda.h

// Asks the driver if the process has loaded it; never loads it.
bool has_initialized_cuda() {
  const DynamicLibrary driver("libcuda.so.1", DynamicLibrary::Lifetime::kThisIfThere);
  int (*device_count)(int*) = nullptr;
  int count = 0;
  return driver.find("cuDeviceGetCount", device_count) &&
         device_count(&count) != kCudaNotInitialized;
}

// OpenBLAS starts its threads when it is loaded, and stops them in a handler that runs before each
// fork (pthread_atfork).
void run_fork_handlers() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  if (pid < 0) throw SystemError("[spawn] cannot fork", errno);
  (void)wait_for_child(pid);
}

std::ptrdiff_t count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// A joined thread stays listed for a moment, so this counts again for a while.
std::ptrdiff_t count_lasting_threads() {
  std::ptrdiff_t threads = 0;
  const auto is_alone = [&] { return (threads = count_threads()) <= 1; };
  (void)becomes_true(is_alone, kThreadsEnd, Timeout(1));
  return threads;
}

}  // namespace

void check_can_fork() {
  if (has_initialized_cuda()) {
    throw std::logic_error(
        "[spawn] this process has used CUDA, which does not survive a fork: call spawn before the "
        "first CUDA call, and choose devices in its function");
  }
  if (count_threads() == 1) return;
  run_fork_handlers();
  const std::ptrdiff_t threads = count_lasting_threads();
  if (threads == 1) return;
  throw std::logic_error(
      "[spawn] this process has " + std::to_string(threads) +
      " threads, and a forked process would have only the calling one: call spawn before anything "
      "starts threads (a process group, a DataLoader, CUDA, or code that uses OpenMP, such as a "
      "convolution)");
}

}  // namespace ddp
