// SPDX-License-Identifier: MIT
#include "ddp/base/system/no_write_signals.h"

#include <pthread.h>

#include <ctime>

namespace ddp {
namespace {

constexpr int kWriteSignals[] = {SIGPIPE, SIGXFSZ};

}  // namespace

NoWriteSignals::NoWriteSignals() {
  sigset_t pending;
  ::sigpending(&pending);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigemptyset(&caught_);
  for (const int signal_number : kWriteSignals) {
    sigaddset(&blocked, signal_number);
    if (sigismember(&pending, signal_number) != 1) sigaddset(&caught_, signal_number);
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, &previous_);
}

NoWriteSignals::~NoWriteSignals() {
  const timespec none{};
  while (::sigtimedwait(&caught_, nullptr, &none) > 0) continue;
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace ddp
