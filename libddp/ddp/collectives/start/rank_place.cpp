// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/rank_place.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "ddp/base/env_reader.h"
#include "ddp/base/error.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

static_assert(kMaxWorldSize <= wire::kMaxKeys, "rank 0 waits for one key of each rank");

// The environment of a rank that knows its place without it. If the environment tells of the same
// place, the caller has it from there, and the rest of the environment holds, too, such as who
// hosts the store. Otherwise it may be that of another job, or wrong.
WorkerEnv environment_of_placed(const InitOptions& options) {
  WorkerEnv env;
  env.local_rank = *options.rank;
  if (!options.ranks_are_threads && !options.local_rank) {
    env.local_rank = EnvReader(::getenv).integer("LOCAL_RANK", 0).value_or(env.local_rank);
  }
  if (options.store) return env;
  try {
    WorkerEnv told = WorkerEnv::from_environment();
    if (told.rank == *options.rank && told.world_size == *options.world_size &&
        told.master == *options.master) {
      return told;
    }
  } catch (const EnvironmentError&) {  // then it does not tell
  }
  return env;
}

// The world size alone does not say that the environment is that of another job, and ranks of which
// the environment does not know would never come.
void check_world_size(const InitOptions& options) {
  if (!options.world_size || options.rank || options.master || options.store) return;
  const auto told = EnvReader(::getenv).integer("WORLD_SIZE", 1);
  if (!told || *told == *options.world_size) return;
  throw std::invalid_argument(
      "[init] InitOptions::world_size is " + std::to_string(*options.world_size) +
      ", but the environment has WORLD_SIZE=" + std::to_string(*told) +
      ": leave it out, or start " + std::to_string(*options.world_size) + " ranks");
}

WorkerEnv environment_of(const InitOptions& options) {
  if (options.world_size == 1) return {};
  const bool is_placed = options.rank && options.world_size && (options.master || options.store);
  if (is_placed) return environment_of_placed(options);
  check_world_size(options);
  return WorkerEnv::from_environment();
}

}  // namespace

WorkerEnv place_of_rank(const InitOptions& options) {
  WorkerEnv env = environment_of(options);
  if (options.rank) env.rank = *options.rank;
  if (options.world_size && env.world_size != *options.world_size) {
    env.world_size = *options.world_size;
    env.size_source.clear();
  }
  if (options.local_rank) env.local_rank = *options.local_rank;
  if (options.master && env.master != *options.master) {
    env.master = *options.master;
    env.master_source.clear();
  }
  if (env.world_size < 1 || env.rank < 0 || env.rank >= env.world_size) {
    throw std::invalid_argument("[init] rank " + std::to_string(env.rank) +
                                " is not in a world of " + std::to_string(env.world_size));
  }
  if (env.world_size > kMaxWorldSize) {
    throw std::invalid_argument("[init] a world of " + std::to_string(env.world_size) +
                                " ranks; a job can have " + std::to_string(kMaxWorldSize));
  }
  if (env.world_size > 1 && !options.store && env.master.host.empty()) {
    throw EnvironmentError(
        "[init] rank " + std::to_string(env.rank) + " of " + std::to_string(env.world_size) +
        " was not told where the store is: set MASTER_ADDR and MASTER_PORT, or give .master or "
        ".store to init_process_group");
  }
  return env;
}

}  // namespace ddp
