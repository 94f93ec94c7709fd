// SPDX-License-Identifier: MIT
#include "ddp/base/system/home_process.h"

#include <pthread.h>
#include <unistd.h>

#include "ddp/base/error.h"

namespace ddp {

HomeProcess::HomeProcess() : pid_(::getpid()) {
  static const int error = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  if (error != 0) throw SystemError("[home_process] pthread_atfork", error);
  forks_ = forks;
}

}  // namespace ddp
