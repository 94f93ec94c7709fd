// SPDX-License-Identifier: MIT
#include "ddp/collectives/init.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "ddp/base/env_reader.h"
#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/crash_record.h"
#include "ddp/base/system/host_name.h"
#include "ddp/base/system/standard_descriptors.h"
#include "ddp/base/system/worker_slot.h"
#include "ddp/collectives/check/call_check.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/hierarchical/hierarchical_process_group.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/nccl/nccl_process_group.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/single_process_group.h"
#include "ddp/collectives/start/device_choice.h"
#include "ddp/collectives/start/first_all_reduce.h"
#include "ddp/collectives/start/job_store.h"
#include "ddp/collectives/start/rendezvous.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

static_assert(kMaxWorldSize == wire::kMaxKeys, "rank 0 waits for one key of each rank");

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

WorkerEnv merge(const InitOptions& options) {
  WorkerEnv env = environment_of(options);
  if (options.rank) env.rank = *options.rank;
  if (options.world_size) env.world_size = *options.world_size;
  if (options.local_rank) env.local_rank = *options.local_rank;
  if (options.master) env.master = *options.master;
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

Timeout timeout_of(const std::optional<Timeout>& given, const char* variable, Timeout otherwise) {
  if (given && *given <= Timeout(0)) {
    throw std::invalid_argument("[init] a timeout is " + std::to_string(given->count()) +
                                " ms, but it must be above 0");
  }
  if (given) return std::min(*given, kLongestTimeout);
  return EnvReader(::getenv).seconds(variable).value_or(otherwise);
}

// The parts of the configuration that this rank knows before it has met the others.
GroupConfig describe_rank(const InitOptions& options, const WorkerEnv& env) {
  GroupConfig config;
  config.rank = env.rank;
  config.world_size = env.world_size;
  config.timeout = timeout_of(options.timeout, "DDP_TIMEOUT", kDefaultTimeout);
  config.start_timeout =
      timeout_of(options.start_timeout, "DDP_START_TIMEOUT", kDefaultStartTimeout);
  // The nccl backend reads this one, too late for an error that should come before the rendezvous.
  static_cast<void>(CallCheckLimits::from_environment());
  config.device = choose_device(options, env);
  cu::make_current(config.device);
  if (!options.ranks_are_threads) config.worker_slot = WorkerSlot::from_environment();
  return config;
}

// A worker that outlived its attempt must not meet the workers of the next one. From the second
// attempt on, ddp-launch stores the current attempt's number.
void refuse_if_stale(Store& run, const WorkerEnv& env) {
  const auto current = run.find("attempt");
  if (!current || *current == std::to_string(env.restart_count)) return;
  throw EnvironmentError("[init] rank " + std::to_string(env.rank) + " (" + host_name() + ", pid " +
                         std::to_string(::getpid()) + ") belongs to attempt " +
                         std::to_string(env.restart_count) + ", but attempt " + *current +
                         " of this job is running");
}

// What the ranks have agreed on, and the part of the store for this initialisation.
struct Agreement {
  JobStore job;
  std::shared_ptr<Store> store;
  Plan plan;
};

// Whether this process has met others in a store that rank 0 hosted, which may still be closing.
std::atomic<bool> has_met_at_rank0 = false;

// Nothing if the store was lost that rank 0 hosted for an earlier group: of this process, or of an
// earlier job, in which another process had this one's rank, and has ended. After such a store the
// next connection may still lead there.
std::optional<Agreement> try_to_agree(JobStore store, const Hello& self, const WorkerEnv& env,
                                      StartPatience& patience, bool is_after_earlier_group) {
  bool may_be_of_earlier_group = is_after_earlier_group;
  try {
    const auto run = std::make_shared<PrefixStore>("ddp/" + env.run_id, store.store);
    refuse_if_stale(*run, env);
    const auto job =
        std::make_shared<PrefixStore>("attempt_" + std::to_string(env.restart_count), run);
    // A process may initialise more than once, and must not read the keys of the previous time.
    Claim claim = claim_rank(job, self);
    may_be_of_earlier_group =
        claim.is_later && !env.agent_hosts_store && !store.local_address.empty();
    Plan plan = agree_on_plan(*claim.store, self, patience);
    return Agreement{std::move(store), std::move(claim.store), std::move(plan)};
  } catch (const NetworkError&) {
    if (may_be_of_earlier_group && !patience.is_over()) return std::nullopt;
    std::throw_with_nested(
        NetworkError("[init] rank " + std::to_string(env.rank) + " has lost " + patience.place() +
                     ", which rank 0 or its launcher hosts, before all ranks were here"));
  }
}

// Nothing if the last store, that of an earlier group, is just being closed.
std::optional<JobStore> try_to_open_store(const InitOptions& options, const WorkerEnv& env,
                                          Timeout start_timeout, StartPatience& patience,
                                          bool is_after_earlier_group) {
  try {
    return open_job_store(options, env, start_timeout, patience);
  } catch (const NetworkError&) {
    if (is_after_earlier_group && !patience.is_over()) return std::nullopt;
    throw;
  }
}

Agreement agree(const InitOptions& options, const Hello& self, const WorkerEnv& env,
                Timeout start_timeout, StartPatience& patience) {
  constexpr Timeout kPause{50};
  for (bool is_after_earlier_group = has_met_at_rank0.load();; is_after_earlier_group = true) {
    auto store = try_to_open_store(options, env, start_timeout, patience, is_after_earlier_group);
    if (store) {
      auto agreement = try_to_agree(*std::move(store), self, env, patience, is_after_earlier_group);
      if (agreement) {
        if (!env.agent_hosts_store && !options.store) has_met_at_rank0.store(true);
        return *std::move(agreement);
      }
    }
    logging::debug("[init] " + patience.place() + " was that of an earlier group");
    std::this_thread::sleep_for(kPause);
  }
}

Hello describe_self(const InitOptions& options, const WorkerEnv& env, Device device) {
  Hello self = ddp::describe_self(env.rank, device);
  self.world_size = env.world_size;
  self.backend = options.backend;
  self.shares_gpu = env.shares_gpus;
  return self;
}

void warn_if_alone(const Hello& self) {
  if (!self.gpu.empty() || self.alone_because.empty()) return;
  logging::warning(
      "[init] rank " + std::to_string(self.who.rank) +
      " cannot share memory with other ranks and uses TCP, which is slow: " + self.alone_because);
}

std::shared_ptr<ProcessGroup> make_group(const InitOptions& options, const WorkerEnv& env,
                                         const JobStore& store, GroupConfig config, Plan plan) {
  logging::debug("[init] " + std::to_string(env.world_size) + " ranks meet over " +
                 std::string(to_string(plan.backend)) + " on " + to_string(config.device));
  if (plan.backend == Backend::kNccl) {
    auto group = make_nccl_process_group(std::move(config));
    try_first_all_reduce(*group);
    return group;
  }
  if (plan.backend == Backend::kShm) return make_shm_process_group(std::move(config));
  const std::string address = address_of(options, env, store, config.start_timeout);
  if (plan.backend == Backend::kTcp) return make_tcp_process_group(std::move(config), address);
  return make_hierarchical_process_group(std::move(config), std::move(plan.hosts), address);
}

std::shared_ptr<ProcessGroup> stay_alone(const InitOptions& options, GroupConfig config) {
  config.store = options.store ? options.store : std::make_shared<HashStore>();
  return make_single_process_group(std::move(config));
}

// So that the watch has looked for the missing rank before an operation times out.
HangWatchOptions within(Timeout timeout, HangWatchOptions options) {
  constexpr Timeout kShortestPeriod{250};
  options.patience = std::min(options.patience, timeout);
  options.period = std::min(options.period, std::max(timeout / 4, kShortestPeriod));
  return options;
}

std::shared_ptr<ProcessGroup> start(const InitOptions& options, const ErrorFile& error_file) {
  const WorkerEnv env = merge(options);
  GroupConfig config = describe_rank(options, env);
  config.error_file = error_file;
  if (env.world_size == 1) return stay_alone(options, std::move(config));
  if (!options.ranks_are_threads) logging::set_rank(env.rank);
  config.worker_slot.set_start_phase(StartPhase::kWaiting);
  StartPatience patience(config.start_timeout, options.store ? "" : to_string(env.master));
  const Hello self = describe_self(options, env, config.device);
  Agreement agreement = agree(options, self, env, config.start_timeout, patience);
  config.worker_slot.set_start_phase(StartPhase::kMet);
  warn_if_alone(self);
  const std::shared_ptr<Store> background = agreement.store->clone(kBackgroundStoreTimeout);
  config.store = std::make_shared<PrefixStore>("default", agreement.store);
  config.background_store = std::make_shared<PrefixStore>("default", background);
  config.check_while_starting = [background, rank = env.rank,
                                 plan = agreement.plan](const std::function<bool()>& has_come) {
    check_neighbours(*background, rank, plan, has_come);
  };
  if (options.hang_watch.period > Timeout(0)) {
    config.hang_watch = std::make_shared<HangWatch>(config.background_store, self.who,
                                                    within(config.timeout, options.hang_watch));
  }
  return start_group(std::move(config), [&](GroupConfig own) {
    return make_group(options, env, agreement.job, std::move(own), std::move(agreement.plan));
  });
}

}  // namespace

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kNccl:
      return "nccl";
    case Backend::kShm:
      return "shm";
    case Backend::kTcp:
      return "tcp";
    case Backend::kShmTcp:
      return "shm+tcp";
  }
  return "unknown";
}

Backend parse_backend(std::string_view name) {
  for (const Backend backend :
       {Backend::kAuto, Backend::kNccl, Backend::kShm, Backend::kTcp, Backend::kShmTcp}) {
    if (name == to_string(backend)) return backend;
  }
  if (name == "gloo") return Backend::kTcp;
  throw std::invalid_argument("unknown backend '" + std::string(name) +
                              "' (known: auto, nccl, shm, tcp or gloo, shm+tcp)");
}

std::shared_ptr<ProcessGroup> init_process_group(const InitOptions& options) {
  const ErrorFile file = options.ranks_are_threads ? ErrorFile() : ErrorFile::from_environment();
  file.clear();
  if (!options.ranks_are_threads) {
    record_crashes();
    occupy_standard_descriptors();
  }
  try {
    return start(options, file);
  } catch (const std::exception& error) {
    file.keep({.message = describe(error),
               .caused_by_peer = is_caused_by_peer(std::current_exception())});
    throw;
  }
}

}  // namespace ddp
