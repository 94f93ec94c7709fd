// SPDX-License-Identifier: MIT
//
// Four ranks on two simulated hosts, for run_on_hosts().
#pragma once

#include <vector>

namespace ddp::test {

inline const std::vector<int> kPairs = {0, 0, 1, 1};
inline const std::vector<int> kInterleaved = {0, 1, 0, 1};

}  // namespace ddp::test
