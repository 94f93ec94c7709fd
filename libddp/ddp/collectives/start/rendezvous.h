// SPDX-License-Identifier: MIT
//
// How ranks agree before there is a group. The keys, under the prefix of the job's current attempt:
//   rank/<rank>       the Hello of the process that has this rank
//   init/<rank>       how many initialisations this rank has begun
//   init_<n>/         of the n-th initialisation of all ranks:
//     first           the Hello of the first rank; the others compare their world size with its
//     hello/<rank>    the rank's Hello
//     plan            what all ranks do, or the error that all throw. The first writer decides:
//                     rank 0, when it has read all hellos, or who sees that the job cannot work
// So there are world_size reads in total, not world_size squared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/meeting/start_patience.h"
#include "ddp/collectives/start/hello.h"
#include "ddp/store/store.h"

namespace ddp {

struct Plan {
  Backend backend = Backend::kAuto;
  std::vector<int> hosts = {};  // hosts_of all ranks
};

struct Claim {
  std::shared_ptr<Store> store;  // the part of the store for the initialisation that begins
  // Another process had the rank, and has ended, or this process has initialised before: if rank 0
  // hosts the store, it may be that of a group which is gone.
  bool is_later = false;
};

// Registers this process under its rank. Throws EnvironmentError if another process has the rank
// and, as far as this one can see, is alive; if that one is still waiting for the others, all of
// them throw it, too.
[[nodiscard]] Claim claim_rank(const std::shared_ptr<Store>& job, const Hello& self);

// For who knows that a rank has ended and that nothing replaces it, and has the store of the
// attempt (agreement.h). If others have begun an initialisation of all `world_size` ranks that it
// did not complete, all ranks throw an EnvironmentError with this text there, also those that come
// later.
void refuse_initialisation_without(Store& attempt, int rank, int world_size,
                                   const std::string& text);

// Exchanges hellos over the store of an initialisation; returns what all ranks do. Throws
// TimeoutError naming the missing ranks once the patience is over. Before that, the first rank to
// arrive logs them whenever `patience` says so.
[[nodiscard]] Plan agree_on_plan(Store& store, const Hello& self, StartPatience& patience);

// For ranks that follow the plan, with the same store: throws PeerError if the process of another
// rank on the host of this one has ended, unless has_come() is true, which says that the rank has
// done its part. Knows nothing if the store does not answer.
void check_neighbours(Store& store, int rank, const Plan& plan,
                      const std::function<bool()>& has_come);

}  // namespace ddp
