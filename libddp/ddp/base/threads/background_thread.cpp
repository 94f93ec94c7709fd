// SPDX-License-Identifier: MIT
#include "ddp/base/threads/background_thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/threads/all_signals_blocked.h"

namespace ddp {
namespace {

// The kernel's struct sched_attr, which C libraries before 2025 do not declare.
struct SchedulingAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;  // nanoseconds; the slice of a thread without real-time policy
  std::uint64_t deadline;
  std::uint64_t period;
};

}  // namespace

std::thread start_program_thread(const std::string& name, std::function<void()> body) try {
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
} catch (const std::system_error& error) {
  const int number = error.code().value();
  const char* hint = number == EPERM
                         ? " (does the container's seccomp profile refuse clone3, as Docker's did "
                           "before 20.10.10?)"
                         : " (see ulimit -u, the control group's pids.max, ulimit -v)";
  throw SystemError("cannot start the thread " + name + hint, number);
}

std::thread start_background_thread(const std::string& name, std::function<void()> body) {
  const AllSignalsBlocked blocked;  // a new thread inherits the mask
  return start_program_thread(name, std::move(body));
}

void ask_for_short_turns() noexcept {
  constexpr std::uint64_t kShortest = 100'000;
  SchedulingAttributes attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = kShortest;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace ddp
