// SPDX-License-Identifier: MIT
#include "ddp/collectives/init.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/base/env_reader.h"
#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/crash_record.h"
#include "ddp/base/system/standard_descriptors.h"
#include "ddp/base/system/worker_slot.h"
#include "ddp/collectives/check/call_check.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/hierarchical/hierarchical_process_group.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/meeting/start_patience.h"
#include "ddp/collectives/nccl/nccl_process_group.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/single_process_group.h"
#include "ddp/collectives/start/agreement.h"
#include "ddp/collectives/start/device_choice.h"
#include "ddp/collectives/start/first_all_reduce.h"
#include "ddp/collectives/start/hello.h"
#include "ddp/collectives/start/job_store.h"
#include "ddp/collectives/start/rank_place.h"
#include "ddp/collectives/start/rendezvous.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

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
  if (!options.ranks_are_threads) config.launcher.worker_slot = WorkerSlot::from_environment();
  return config;
}

Hello own_hello(const InitOptions& options, const WorkerEnv& env, Device device) {
  Hello hello = describe_self(env.rank, device);
  hello.world_size = env.world_size;
  hello.backend = options.backend;
  hello.shares_gpu = env.shares_gpus;
  return hello;
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
    try_first_all_reduce(*group, HostLayout(plan.hosts));
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

// Warns, and adds who said how many ranks there are: the missing ones may not be any.
StartPatience::Report warning_with(const std::string& size_source) {
  return [suffix = size_source.empty() ? "" : "; " + size_source](std::string_view text) {
    logging::warning(std::string(text) + suffix);
  };
}

std::shared_ptr<ProcessGroup> start(const InitOptions& options, const ErrorFile& error_file) {
  const WorkerEnv env = place_of_rank(options);
  GroupConfig config = describe_rank(options, env);
  config.launcher.error_file = error_file;
  if (env.world_size == 1) return stay_alone(options, std::move(config));
  if (!options.ranks_are_threads) logging::set_rank(env.rank);
  config.launcher.worker_slot.set_start_phase(StartPhase::kWaiting);
  StartPatience patience(config.start_timeout, options.store ? "" : to_string(env.master),
                         StartPatience::kPeriod, warning_with(env.size_source));
  const Hello self = own_hello(options, env, config.device);
  Agreement agreement = agree(options, self, env, config.start_timeout, patience);
  config.launcher.worker_slot.set_start_phase(StartPhase::kMet);
  warn_if_alone(self);
  const std::shared_ptr<Store> background = agreement.store->clone(kBackgroundStoreTimeout);
  config.store = std::make_shared<PrefixStore>("default", agreement.store);
  config.background_store = std::make_shared<PrefixStore>("default", background);
  config.check_while_starting = [background, rank = env.rank,
                                 plan = agreement.plan](const std::function<bool()>& has_come) {
    check_neighbours(*background, rank, plan, has_come);
  };
  if (options.hang_watch.period > Timeout(0)) {
    config.job.hang_watch = std::make_shared<HangWatch>(config.background_store, self.who,
                                                        within(config.timeout, options.hang_watch));
  }
  return start_group(std::move(config), [&](GroupConfig own) {
    return make_group(options, env, agreement.job, std::move(own), std::move(agreement.plan));
  });
}

}  // namespace

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
