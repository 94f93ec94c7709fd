// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/endpoint.h"

namespace ddp::test {

// Where a test's server listens; the system chooses the port.
inline const Endpoint kLoopback{"127.0.0.1", 0};

}  // namespace ddp::test
