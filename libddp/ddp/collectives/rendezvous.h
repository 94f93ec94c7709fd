// SPDX-License-Identifier: MIT
//
// How ranks agree before there is a group. The keys, under those of the job's present attempt:
//   rank/<rank>       the Hello of the process that has this rank
//   init/<rank>       how often this rank has begun an initialisation
//   init_<n>/         of the n-th initialisation of all ranks:
//     first           the Hello of who came first, whose world size the others compare with theirs
//     hello/<rank>    the rank's Hello
//     plan            what all do, or the error that all throw. The first to write it decides:
//                     rank 0, once it has read all hellos, or a rank that sees that it cannot work
// That is world_size reads in all, not world_size squared.
#pragma once

#include <memory>
#include <vector>

#include "ddp/collectives/hello.h"
#include "ddp/collectives/start_patience.h"
#include "ddp/store/store.h"

namespace ddp {

struct Plan {
  Backend backend = Backend::kAuto;
  std::vector<int> hosts = {};  // hosts_of all ranks
};

// Makes this process the one with its rank and returns the part of the store for the initialisation
// that it begins: its first one, or another. Throws EnvironmentError if another process has the
// rank and lives, as far as can be seen from here; if that one still waits for the others, all of
// them throw it, too. A process that has ended may be replaced.
[[nodiscard]] std::shared_ptr<Store> claim_rank(const std::shared_ptr<Store>& job,
                                                const Hello& self);

// Exchanges hellos over the store of an initialisation; returns what all ranks do. Throws
// TimeoutError naming the ranks that are missing once the patience is over, and says so before as
// often as that wants: one of the ranks does, the first that is here.
[[nodiscard]] Plan agree_on_plan(Store& store, const Hello& self, StartPatience& patience);

}  // namespace ddp
