// SPDX-License-Identifier: MIT
#include "ddp/collectives/init.h"

#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/host_name.h"
#include "ddp/base/log.h"
#include "ddp/collectives/gloo_process_group.h"
#include "ddp/collectives/hierarchical_process_group.h"
#include "ddp/collectives/nccl_process_group.h"
#include "ddp/collectives/rendezvous.h"
#include "ddp/collectives/shm_process_group.h"
#include "ddp/collectives/single_process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"

namespace ddp {
namespace {

// What rank 0 holds when no agent hosts the store.
struct HostedStore {
  HostedStore(const Endpoint& endpoint, Timeout timeout) try
      : server(endpoint), client(endpoint, timeout, 0) {
  } catch (const SystemError& error) {
    if (error.error_number() != EADDRNOTAVAIL) throw;
    std::throw_with_nested(
        EnvironmentError("rank 0 hosts the store, but MASTER_ADDR is not an "
                         "address of its host (" +
                         host_name() + ")"));
  }

  TcpServer server;
  TcpStore client;
};

WorkerEnv merge(const InitOptions& options) {
  const bool complete = options.rank && options.world_size && (options.master || options.store);
  const bool needs_environment = !complete && options.world_size.value_or(2) != 1;
  WorkerEnv env = needs_environment ? WorkerEnv::from_environment() : WorkerEnv();
  if (options.rank) env.rank = *options.rank;
  if (options.world_size) env.world_size = *options.world_size;
  if (complete) env.local_rank = env.rank;
  if (options.local_rank) env.local_rank = *options.local_rank;
  if (options.master) env.master = *options.master;
  if (env.world_size < 1 || env.rank < 0 || env.rank >= env.world_size) {
    throw std::invalid_argument("rank " + std::to_string(env.rank) + " is not in a world of " +
                                std::to_string(env.world_size));
  }
  if (env.world_size > 1 && !options.store && env.master.host.empty()) {
    throw EnvironmentError("rank " + std::to_string(env.rank) + " of " +
                           std::to_string(env.world_size) +
                           " knows no store: set MASTER_ADDR and MASTER_PORT, or give .master or "
                           ".store to init_process_group");
  }
  return env;
}

Device choose_device(const InitOptions& options, const WorkerEnv& env) {
  const bool cpu_backend = options.backend != Backend::kAuto && options.backend != Backend::kNccl;
  const bool wants_cuda =
      options.device == DeviceChoice::kCuda || options.backend == Backend::kNccl;
  if (options.device == DeviceChoice::kCpu && options.backend == Backend::kNccl) {
    throw std::invalid_argument("backend nccl does not work on the CPU");
  }
  if (options.device == DeviceChoice::kCuda && cpu_backend) {
    throw std::invalid_argument("backend " + std::string(to_string(options.backend)) +
                                " does not work on CUDA devices");
  }
  if (options.device == DeviceChoice::kCpu || cpu_backend) return kCpuDevice;
  const int visible = cu::device_count();
  if (visible == 0 && !wants_cuda) return kCpuDevice;
  if (visible == 0) {
    throw EnvironmentError("no GPU is visible: run on the CPU with --device cpu");
  }
  if (env.shares_gpus) return cuda_device(env.local_rank % visible);
  if (env.local_rank < visible) return cuda_device(env.local_rank);
  throw EnvironmentError("LOCAL_RANK=" + std::to_string(env.local_rank) + ", but " +
                         std::to_string(visible) + (visible == 1 ? " GPU is" : " GPUs are") +
                         " visible: start ddp-launch with -n " + std::to_string(visible) +
                         ", share GPUs with --oversubscribe, or run on the CPU with --device cpu");
}

std::shared_ptr<Store> connect_store(const InitOptions& options, const WorkerEnv& env) {
  if (options.store) return options.store;
  if (env.rank != 0 || env.agent_hosts_store) {
    return std::make_shared<TcpStore>(env.master, options.start_timeout, env.rank);
  }
  const auto hosted = std::make_shared<HostedStore>(env.master, options.start_timeout);
  return {hosted, &hosted->client};  // the server lives as long as the client
}

// A worker that outlived its attempt must not meet those of the next one. ddp-launch says which
// that is, from the second one on.
void refuse_if_stale(Store& run, const WorkerEnv& env) {
  if (!run.has("attempt")) return;
  const std::string current = run.get("attempt");
  if (current == std::to_string(env.restart_count)) return;
  throw EnvironmentError("rank " + std::to_string(env.rank) + " (" + host_name() + ", pid " +
                         std::to_string(::getpid()) + ") is of attempt " +
                         std::to_string(env.restart_count) + ", but attempt " + current +
                         " of this job is running");
}

// The address of the interface that reaches the store; peers reach us there.
std::string local_address(const WorkerEnv& env, Timeout timeout) {
  return TcpStore(env.master, timeout, env.rank).local_address();
}

std::shared_ptr<ProcessGroup> meet(const InitOptions& options, const ErrorFile& error_file) {
  const WorkerEnv env = merge(options);
  GroupConfig config;
  config.error_file = error_file;
  config.rank = env.rank;
  config.world_size = env.world_size;
  config.device = choose_device(options, env);
  if (!options.store) config.step_file = StepFile::from_environment(env.local_rank);
  config.timeout = options.timeout;
  config.start_timeout = options.start_timeout;
  if (env.world_size == 1) {
    config.store = options.store ? options.store : std::make_shared<HashStore>();
    return make_single_process_group(std::move(config));
  }
  if (options.store == nullptr) log::set_rank(env.rank);
  const auto run = std::make_shared<PrefixStore>("ddp/" + env.run_id, connect_store(options, env));
  refuse_if_stale(*run, env);
  const auto job =
      std::make_shared<PrefixStore>("attempt_" + std::to_string(env.restart_count), run);
  // A process may do this more than once: what was said the last time must not be heard again.
  const std::int64_t turn = job->add("init/" + std::to_string(env.rank), 1);
  const auto store = std::make_shared<PrefixStore>("init_" + std::to_string(turn), job);
  const Hello self = describe_self(config.device, options.backend, env.shares_gpus);
  Plan plan = agree_on_plan(*store, env.rank, env.world_size, self, options.start_timeout);
  if (!config.device.is_cuda() && !self.alone_because.empty()) {
    log::warning("[init] rank " + std::to_string(env.rank) +
                 " shares no memory with others and talks to them over TCP, which is slow: " +
                 self.alone_because);
  }
  config.store = std::make_shared<PrefixStore>("default", store);
  if (options.hang_watch.period > Timeout(0)) {
    config.hang_watch = std::make_shared<HangWatch>(
        *config.store, identify_self(env.rank, config.device), options.hang_watch);
  }
  log::debug("[init] " + std::to_string(env.world_size) + " ranks meet over " +
             std::string(to_string(plan.backend)) + " on " + to_string(config.device));
  if (plan.backend == Backend::kNccl) return make_nccl_process_group(std::move(config));
  if (plan.backend == Backend::kShm) return make_shm_process_group(std::move(config));
  const std::string address =
      options.master || !options.store ? local_address(env, options.start_timeout) : "127.0.0.1";
  if (plan.backend == Backend::kGloo) return make_gloo_process_group(std::move(config), address);
  return make_hierarchical_process_group(std::move(config), std::move(plan.hosts), address);
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
    case Backend::kGloo:
      return "gloo";
    case Backend::kShmGloo:
      return "shm+gloo";
  }
  return "unknown";
}

Backend parse_backend(std::string_view name) {
  for (const Backend backend :
       {Backend::kAuto, Backend::kNccl, Backend::kShm, Backend::kGloo, Backend::kShmGloo}) {
    if (name == to_string(backend)) return backend;
  }
  throw std::invalid_argument("unknown backend '" + std::string(name) +
                              "' (known: auto, nccl, shm, gloo, shm+gloo)");
}

// Who gives the store may have several ranks in this process.
std::shared_ptr<ProcessGroup> init_process_group(const InitOptions& options) {
  const ErrorFile file = options.store ? ErrorFile() : ErrorFile::from_environment();
  file.clear();
  try {
    return meet(options, file);
  } catch (const std::exception& error) {
    file.keep({.message = describe(error),
               .caused_by_peer = is_caused_by_peer(std::current_exception())});
    throw;
  }
}

}  // namespace ddp
