// SPDX-License-Identifier: MIT
#include "ddp/base/worker_env.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ddp/base/error.h"
#include "ddp/base/scheduler_env.h"

namespace ddp {
namespace {

constexpr const char* kRequired[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
constexpr const char* kLocal[] = {"LOCAL_RANK", "LOCAL_WORLD_SIZE"};

// True if a launcher has given the process a rank.
bool is_numbered(const EnvReader& env) {
  return env.has("RANK") || env.has("LOCAL_RANK") || env.has("LOCAL_WORLD_SIZE");
}

bool says_anything(const EnvReader& env) {
  return std::ranges::any_of(kRequired, [&env](const char* name) { return env.has(name); });
}

void check_complete(const EnvReader& env) {
  std::string missing, present;
  for (const char* name : kRequired) {
    const auto value = env.text(name);
    std::string& list = value ? present : missing;
    list += (list.empty() ? "" : ", ") + std::string(name) + (value ? "=" + *value : "");
  }
  if (missing.empty()) return;
  if (present.find("=tcp://") != std::string::npos) {
    present += ", as Kubernetes sets it for a service named master: enableServiceLinks: false";
  }
  std::string local;
  for (const char* name : kLocal) {
    if (env.has(name)) local += (local.empty() ? " and unset " : ", ") + std::string(name);
  }
  throw EnvironmentError("the worker environment is incomplete: " + missing + " not set" +
                         (present.empty() ? "" : ", but " + present) +
                         " (set all of RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or "
                         "none of them for a single process" +
                         local + ")");
}

// A local rank counts as a launcher's, and so hides the ranks of a scheduler.
void refuse_local_rank_alone(const EnvReader& env, const WorkerEnv::Lookup& lookup) {
  if (env.has("RANK") || env.has("WORLD_SIZE")) return;
  const auto scheduler = parse_scheduler_env(lookup);
  if (!scheduler) return;
  std::string names, values;
  for (const char* name : kLocal) {
    const auto value = env.text(name);
    if (!value) continue;
    const std::string link = names.empty() ? "" : " and ";
    names += link + name;
    values += link + name + "=" + *value;
  }
  const bool are_several = names.find(' ') != std::string::npos;
  throw EnvironmentError(values + (are_several ? " are" : " is") + " set, but RANK is not: unset " +
                         names + ", since " + scheduler->starter +
                         "'s variables number this process");
}

// Several processes that each believe to be a world of one would train N separate models.
void refuse_foreign_launcher(const EnvReader& env) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE"}) {
    const auto tasks = env.integer(name, 0);
    if (tasks.value_or(1) > 1) {
      throw EnvironmentError(
          std::string(name) + "=" + std::to_string(*tasks) +
          " but RANK is not set: start the workers with ddp-launch, mpirun or srun, or set RANK, "
          "WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
    }
  }
}

WorkerEnv from_scheduler(const EnvReader& env, const SchedulerEnv& scheduler) {
  if (scheduler.size > 1 && (scheduler.meeting.host.empty() || scheduler.meeting.port == 0)) {
    throw EnvironmentError(scheduler.starter + " started " + std::to_string(scheduler.size) +
                           " processes, but does not say where they can meet: set MASTER_ADDR and "
                           "MASTER_PORT");
  }
  if (!scheduler.doubt.empty()) {
    throw EnvironmentError(scheduler.starter + " started " + std::to_string(scheduler.size) +
                           " processes, but " + scheduler.doubt +
                           ": set MASTER_ADDR to the host of task 0, where all can meet");
  }
  if (scheduler.size > kMaxWorldSize) {
    throw EnvironmentError(scheduler.starter + " started " + std::to_string(scheduler.size) +
                           " processes, but a job can have " + std::to_string(kMaxWorldSize) +
                           " ranks");
  }
  const auto world_size = env.integer("WORLD_SIZE", 1);
  if (world_size.value_or(scheduler.size) != scheduler.size) {
    throw EnvironmentError("WORLD_SIZE=" + std::to_string(*world_size) + ", but " +
                           scheduler.starter + " started " + std::to_string(scheduler.size) +
                           " processes");
  }
  WorkerEnv result;
  result.shares_gpus = env.flag("DDP_OVERSUBSCRIBE");
  if (scheduler.size == 1) return result;
  result.rank = scheduler.rank;
  result.world_size = scheduler.size;
  result.size_source =
      scheduler.describe_size() + "; for a single one set " + scheduler.size_variable + "=1";
  result.local_rank = scheduler.local_rank;
  result.local_world_size = scheduler.local_size;
  result.node_rank = scheduler.node_rank;
  result.node_count = scheduler.node_count;
  result.master = scheduler.meeting;
  if (!env.has("MASTER_ADDR")) result.master_source = scheduler.starter;
  if (!scheduler.run_id.empty()) result.run_id = scheduler.run_id;
  return result;
}

void check_below(const char* name, int value, const char* bound_name, int bound) {
  if (value < bound) return;
  throw EnvironmentError(std::string(name) + "=" + std::to_string(value) + " must be below " +
                         bound_name + "=" + std::to_string(bound));
}

int read_world_size(const EnvReader& env) {
  const int world_size = *env.integer("WORLD_SIZE", 1);
  if (world_size <= kMaxWorldSize) return world_size;
  throw EnvironmentError("WORLD_SIZE=" + std::to_string(world_size) + " is more than the " +
                         std::to_string(kMaxWorldSize) + " ranks that a job can have");
}

void read_node(const EnvReader& env, WorkerEnv& result) {
  const auto node_count = env.integer("GROUP_WORLD_SIZE", 1);
  result.node_rank = env.integer("GROUP_RANK", 0).value_or(0);
  result.node_count = node_count.value_or(1);
  if (node_count) check_below("GROUP_RANK", result.node_rank, "GROUP_WORLD_SIZE", *node_count);
}

void read_local(const EnvReader& env, WorkerEnv& result) {
  const auto local_rank = env.integer("LOCAL_RANK", 0);
  const auto local_world_size = env.integer("LOCAL_WORLD_SIZE", 1);
  if (local_rank.has_value() != local_world_size.has_value()) {
    throw EnvironmentError(local_rank ? "LOCAL_RANK is set but LOCAL_WORLD_SIZE is not"
                                      : "LOCAL_WORLD_SIZE is set but LOCAL_RANK is not");
  }
  result.local_rank = local_rank.value_or(result.rank);
  result.local_world_size = local_world_size.value_or(result.world_size);
  check_below("LOCAL_RANK", result.local_rank, "LOCAL_WORLD_SIZE", result.local_world_size);
  if (result.local_world_size > result.world_size) {
    throw EnvironmentError("LOCAL_WORLD_SIZE=" + std::to_string(result.local_world_size) +
                           " is larger than WORLD_SIZE=" + std::to_string(result.world_size));
  }
}

// Whether an outer ddp-launch has set the file, for one of its workers: beside that worker's error
// file. A file that the user chose is for all ranks.
bool has_events_file_of_worker(const EnvReader& env) {
  using std::filesystem::path;
  const auto events = env.text("DDP_EVENTS_FILE");
  const auto errors = env.text("TORCHELASTIC_ERROR_FILE");
  return events && errors && path(*events).parent_path() == path(*errors).parent_path();
}

}  // namespace

WorkerEnv WorkerEnv::from_environment() { return parse(::getenv); }

WorkerEnv WorkerEnv::parse(const Lookup& lookup) {
  const EnvReader env(lookup);
  if (is_numbered(env)) {
    refuse_local_rank_alone(env, lookup);
  } else {
    if (const auto scheduler = parse_scheduler_env(lookup)) return from_scheduler(env, *scheduler);
    refuse_foreign_launcher(env);
    if (!says_anything(env)) return {};
  }
  check_complete(env);
  WorkerEnv result;
  result.world_size = read_world_size(env);
  result.rank = *env.integer("RANK", 0);
  check_below("RANK", result.rank, "WORLD_SIZE", result.world_size);
  read_local(env, result);
  read_node(env, result);
  result.role = env.text("ROLE_NAME").value_or("default");
  result.master = {*env.text("MASTER_ADDR"), *env.port("MASTER_PORT")};
  result.restart_count = env.integer("TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  result.max_restarts = env.integer("TORCHELASTIC_MAX_RESTARTS", 0).value_or(0);
  result.run_id = env.text("TORCHELASTIC_RUN_ID").value_or("none");
  result.agent_hosts_store = env.flag("TORCHELASTIC_USE_AGENT_STORE");
  result.shares_gpus = env.flag("DDP_OVERSUBSCRIBE");
  return result;
}

EnvironmentChanges to_environment(const WorkerEnv& env, int omp_threads,
                                  const WorkerEnv::Lookup& inherited) {
  const std::string rank = std::to_string(env.rank);
  const std::string world_size = std::to_string(env.world_size);
  EnvironmentChanges changes;
  changes.set = {{"RANK", rank},
                 {"LOCAL_RANK", std::to_string(env.local_rank)},
                 {"GROUP_RANK", std::to_string(env.node_rank)},
                 {"ROLE_RANK", rank},
                 {"ROLE_NAME", env.role},
                 {"LOCAL_WORLD_SIZE", std::to_string(env.local_world_size)},
                 {"WORLD_SIZE", world_size},
                 {"GROUP_WORLD_SIZE", std::to_string(env.node_count)},
                 {"ROLE_WORLD_SIZE", world_size},
                 {"MASTER_ADDR", env.master.host},
                 {"MASTER_PORT", std::to_string(env.master.port)},
                 {"TORCHELASTIC_RESTART_COUNT", std::to_string(env.restart_count)},
                 {"TORCHELASTIC_MAX_RESTARTS", std::to_string(env.max_restarts)},
                 {"TORCHELASTIC_RUN_ID", env.run_id},
                 {"TORCHELASTIC_USE_AGENT_STORE", env.agent_hosts_store ? "True" : "False"},
                 {"TORCHELASTIC_ERROR_FILE", ""},
                 {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}};
  changes.set_if_missing = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                            {"OMP_NUM_THREADS", std::to_string(omp_threads)}};
  changes.unset = {"DDP_LAUNCH_TTY", "DDP_WORKER_SLOTS", "DDP_CRASH_FILE"};
  if (env.shares_gpus) {
    changes.set.emplace_back("DDP_OVERSUBSCRIBE", "1");
  } else {
    changes.unset.emplace_back("DDP_OVERSUBSCRIBE");
  }
  if (has_events_file_of_worker(EnvReader(inherited))) {
    changes.unset.emplace_back("DDP_EVENTS_FILE");
  }
  return changes;
}

}  // namespace ddp
