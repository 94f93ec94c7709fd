// SPDX-License-Identifier: MIT
#include "ddp/base/net/wake_up.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "ddp/base/error.h"

namespace ddp {

WakeUp::WakeUp() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.is_open()) throw SystemError("cannot create an eventfd", errno);
}

void WakeUp::wake() const noexcept { ::eventfd_write(event_.get(), 1); }

void WakeUp::acknowledge() const noexcept {
  eventfd_t count = 0;
  ::eventfd_read(event_.get(), &count);
}

}  // namespace ddp
