// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/collectives/start/hello.h"

namespace ddp {

// The backend for these ranks. Throws EnvironmentError or MismatchError naming the ranks if they
// cannot work together.
[[nodiscard]] Backend choose_backend(const std::vector<Hello>& hellos);

}  // namespace ddp
