// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/sole_call.h"

#include <stdexcept>

namespace ddp {

void SoleCall::refuse() {
  throw std::logic_error(
      "[ddp] mark_ready or wait was called while a call of one of them was running: threads that "
      "compute gradients must take turns, as with a mutex, and have ended when wait is called; a "
      "hook must not call its engine");
}

}  // namespace ddp
