// SPDX-License-Identifier: MIT
//
// The keys, under the launchers' prefix, that are used while the nodes of a job meet and when the
// job ends. launcher_store.cpp has those of the job as a whole, NodeWatch those used in between.
#pragma once

#include <string>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Who a node is (node.h).
[[nodiscard]] inline std::string node_key(int rank) { return "node/" + std::to_string(rank); }

// A counter that a node's launcher increments every kSignPeriod, from its registration on.
[[nodiscard]] inline std::string alive_key(int rank) { return "alive/" + std::to_string(rank); }
inline constexpr Timeout kSignPeriod{500};

// The entries of all nodes one after the other, by rank. Node 0 writes it when all are there; they
// no longer change then.
inline constexpr const char* kMetKey = "met";

// A sentence: the first node that is lost, by which the job ends.
inline constexpr const char* kLostKey = "lost";

// Counts the launchers that have left the job.
inline constexpr const char* kLeftKey = "left";

}  // namespace ddp::launcher
