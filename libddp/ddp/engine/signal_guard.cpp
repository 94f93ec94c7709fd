// SPDX-License-Identifier: MIT
#include "ddp/engine/signal_guard.h"

#include <unistd.h>

#include <atomic>
#include <stdexcept>

#include "ddp/base/system/key_press.h"
#include "ddp/base/system/worker_slot.h"

namespace ddp {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGUSR1, SIGINT, SIGUSR2};

// Global, because a signal handler has no other place to write to.
std::atomic<bool> guard_exists = false;
std::atomic<int> stop_noted = 0;  // the first signal
std::atomic<bool> is_interrupted = false;
KeyPress last_press;
std::atomic<bool> report_noted = false;
std::atomic<const WorkerSlot*> noted_in = nullptr;
std::atomic<pid_t> owner = 0;  // a forked child has the handler, too, but not the worker slot
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<const WorkerSlot*>::is_always_lock_free);
static_assert(std::atomic<pid_t>::is_always_lock_free);

// Async-signal-safe. A program's own handler stays.
void ignore_sigpipe() {
  struct sigaction current = {};
  ::sigaction(SIGPIPE, nullptr, &current);
  if (current.sa_handler != SIG_DFL) return;
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
}

// Once the handler returns, since the signal is blocked until then.
void end_by(int signal_number) {
  struct sigaction end = {};
  end.sa_handler = SIG_DFL;
  ::sigaction(signal_number, &end, nullptr);
  ::raise(signal_number);
}

void note(int signal_number, siginfo_t* info, void*) {
  if (signal_number == SIGUSR2) {
    report_noted = true;
    return;
  }
  if (signal_number == SIGINT) {
    if (last_press.is_copy(info->si_code)) return;
    if (is_interrupted.exchange(true)) return end_by(signal_number);
  }
  int none = 0;
  stop_noted.compare_exchange_strong(none, signal_number);
  ignore_sigpipe();
  if (::getpid() != owner) return;
  // Other signals, such as a timer's, have no sender: the process asks itself.
  const bool has_sender =
      info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
  noted_in.load()->note(
      {.signal_number = signal_number, .sender = has_sender ? info->si_pid : owner.load()});
}

// Never destroyed, since a signal may come at any time.
const WorkerSlot* own_slot() {
  static const auto* const own = new WorkerSlot(WorkerSlot::from_environment());
  return own;
}

void handle(int signal_number, struct sigaction& previous) {
  ::sigaction(signal_number, nullptr, &previous);
  if (signal_number == SIGINT && previous.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_sigaction = note;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal_number, &action, nullptr);
}

}  // namespace

SignalGuard::SignalGuard() {
  if (guard_exists.exchange(true)) {
    throw std::logic_error("[ddp] a process can have only one SignalGuard at a time");
  }
  stop_noted = 0;
  is_interrupted = false;
  report_noted = false;
  noted_in = own_slot();
  owner = ::getpid();
  ::sigaction(SIGPIPE, nullptr, &previous_sigpipe_);
  struct sigaction* previous = previous_;
  for (const int signal_number : kSignals) handle(signal_number, *previous++);
}

SignalGuard::~SignalGuard() {
  const struct sigaction* previous = previous_;
  for (const int signal_number : kSignals) ::sigaction(signal_number, previous++, nullptr);
  if (stop_requested()) ::sigaction(SIGPIPE, &previous_sigpipe_, nullptr);
  guard_exists = false;
}

std::optional<int> SignalGuard::stop_signal() const {
  const int signal_number = stop_noted;
  return signal_number == 0 ? std::nullopt : std::optional(signal_number);
}

bool SignalGuard::take_report_request() { return report_noted.exchange(false); }

}  // namespace ddp
