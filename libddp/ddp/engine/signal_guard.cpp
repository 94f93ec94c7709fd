// SPDX-License-Identifier: MIT
#include "ddp/engine/signal_guard.h"

#include <atomic>
#include <stdexcept>

namespace ddp {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGUSR1, SIGUSR2};

// Global, because a signal handler has no other place to write to.
std::atomic<bool> guard_exists = false;
std::atomic<bool> stop_noted = false;
std::atomic<bool> report_noted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int signal_number) { (signal_number == SIGUSR2 ? report_noted : stop_noted) = true; }

}  // namespace

SignalGuard::SignalGuard() {
  if (guard_exists.exchange(true)) {
    throw std::logic_error("[ddp] a process can have only one SignalGuard at a time");
  }
  stop_noted = false;
  report_noted = false;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  struct sigaction* previous = previous_;
  for (const int signal_number : kSignals) ::sigaction(signal_number, &action, previous++);
}

SignalGuard::~SignalGuard() {
  const struct sigaction* previous = previous_;
  for (const int signal_number : kSignals) ::sigaction(signal_number, previous++, nullptr);
  guard_exists = false;
}

bool SignalGuard::stop_requested() const { return stop_noted; }

bool SignalGuard::take_report_request() { return report_noted.exchange(false); }

}  // namespace ddp
