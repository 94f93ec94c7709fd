// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/sole_call.h"

#include <stdexcept>

namespace ddp {

void SoleCall::refuse() {
  throw std::logic_error(
      "[ddp] mark_ready or wait was called while another thread was in one of them: threads that "
      "compute gradients must take turns, as with a mutex, and have ended when wait is called");
}

}  // namespace ddp
