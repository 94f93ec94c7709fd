// SPDX-License-Identifier: MIT
#pragma once

#include <catch2/catch.hpp>

#include "ddp/kernels/shapes.h"

namespace ddp::test {

// One mode in each run of the test case.
inline WriteMode any_mode() { return GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate); }

}  // namespace ddp::test
