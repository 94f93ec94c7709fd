// SPDX-License-Identifier: MIT
#include "ddp/base/scheduler_env.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/host_list.h"
#include "ddp/base/round_up.h"

namespace ddp {
namespace {

template <class T>
T required(const std::optional<T>& value, const char* name, const SchedulerEnv& env) {
  if (value) return *value;
  throw EnvironmentError(env.starter + " started " + std::to_string(env.size) + " processes, but " +
                         name + " is not set");
}

void read_size(const EnvReader& env, const char* name, SchedulerEnv& result) {
  result.size_variable = name;
  result.size = env.integer(name, 1).value_or(1);
}

std::string first_set(const EnvReader& env, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = env.text(name)) return *value;
  }
  return "";
}

// "1272053760.0;tcp://10.0.0.2,192.168.1.2:46187;tcp6://[fd00::2]:34589": the first address.
std::string host_in_uri(std::string_view uri) {
  const std::size_t scheme = uri.find("://");
  if (scheme == std::string_view::npos) return "";
  uri.remove_prefix(scheme + 3);
  if (uri.starts_with('[')) return std::string(uri.substr(1, uri.find_first_of(",]") - 1));
  return std::string(uri.substr(0, uri.find_first_of(",:")));
}

// A job id has mpirun's number in its upper half, and that of a program started by it in its lower
// half.
void find_meeting_of_open_mpi_4(const EnvReader& env, SchedulerEnv& result) {
  result.meeting.host = host_in_uri(first_set(env, {"OMPI_MCA_orte_hnp_uri"}));
  if (const auto job = env.identifier("OMPI_MCA_ess_base_jobid")) {
    result.meeting.port = meeting_port(*job >> 16, *job & 0xffff);
    result.run_id = "mpirun-" + std::to_string(*job);
  }
}

// Parses a text such as "prterun-node-7-27873@1": mpirun's host ("node-7") and process id, and the
// number of the program that it started.
void find_meeting_of_open_mpi_5(std::string_view job, SchedulerEnv& result) {
  const std::size_t host = job.find('-') + 1, process = job.rfind('-') + 1;
  const char* end = job.data() + job.size();
  std::uint32_t pid = 0;
  std::uint32_t step = 0;
  const auto [stop, error] = std::from_chars(job.data() + process, end, pid);
  if (error != std::errc() || process <= host || stop == end || *stop != '@') return;
  if (std::from_chars(stop + 1, end, step).ec != std::errc()) return;
  result.meeting.host = job.substr(host, process - 1 - host);
  result.meeting.port = meeting_port(pid, step);
  result.run_id = "mpirun-" + std::string(job.substr(host));
}

// mpirun fills one host after the other, unless told otherwise, and they are taken to be alike.
void number_nodes(SchedulerEnv& result) {
  result.node_rank = result.rank / result.local_size;
  result.node_count = static_cast<int>(divide_up(static_cast<std::size_t>(result.size),
                                                 static_cast<std::size_t>(result.local_size)));
}

SchedulerEnv parse_open_mpi(const EnvReader& env) {
  SchedulerEnv result;
  result.starter = "mpirun";
  read_size(env, "OMPI_COMM_WORLD_SIZE", result);
  if (result.size == 1) return result;
  const auto integer = [&](const char* name, int minimum) {
    return required(env.integer(name, minimum), name, result);
  };
  result.rank = integer("OMPI_COMM_WORLD_RANK", 0);
  result.local_rank = integer("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  result.local_size = integer("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  number_nodes(result);
  find_meeting_of_open_mpi_4(env, result);
  if (result.run_id.empty()) find_meeting_of_open_mpi_5(first_set(env, {"PMIX_NAMESPACE"}), result);
  return result;
}

// MPICH's mpirun does not tell host and job.
SchedulerEnv parse_mpich(const EnvReader& env) {
  SchedulerEnv result;
  result.starter = "mpirun";
  read_size(env, "PMI_SIZE", result);
  if (result.size == 1) return result;
  result.rank = required(env.integer("PMI_RANK", 0), "PMI_RANK", result);
  result.local_rank = required(env.integer("MPI_LOCALRANKID", 0), "MPI_LOCALRANKID", result);
  result.local_size = *env.integer("MPI_LOCALNRANKS", 1);
  number_nodes(result);
  return result;
}

// The number of tasks on a node in a text such as "4(x2),3".
std::optional<int> tasks_on_node(std::string_view tasks_per_node, int node) {
  while (!tasks_per_node.empty()) {
    const std::string_view group = tasks_per_node.substr(0, tasks_per_node.find(','));
    tasks_per_node.remove_prefix(std::min(group.size() + 1, tasks_per_node.size()));
    const char* end = group.data() + group.size();
    int tasks = 0;
    int nodes = 1;
    const auto [stop, error] = std::from_chars(group.data(), end, tasks);
    if (error != std::errc()) return std::nullopt;
    if (end - stop > 2) std::from_chars(stop + 2, end, nodes);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

std::string first_slurm_host(const EnvReader& env) {
  const std::vector<std::string> hosts =
      hosts_in(first_set(env, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}), 1);
  return hosts.empty() ? "" : hosts.front();
}

// The place of this task's host in the step's list.
std::optional<int> place_in_slurm_list(const EnvReader& env) {
  const auto name = env.text("SLURMD_NODENAME");
  const std::vector<std::string> hosts = hosts_in(first_set(env, {"SLURM_STEP_NODELIST"}));
  const auto place = std::ranges::find(hosts, name);
  if (place == hosts.end()) return std::nullopt;
  return static_cast<int>(place - hosts.begin());
}

// Why task 0 may not be on the first host of the list. Where `place` is that host's, the task with
// local rank 0 would be task 0.
std::string doubt_first_host(const EnvReader& env, const SchedulerEnv& self,
                             std::optional<int> place) {
  if (self.is_on_one_host()) return "";
  const std::string host = first_set(env, {"SLURMD_NODENAME"}) + " (SLURMD_NODENAME)";
  const std::string list =
      "the first of SLURM_STEP_NODELIST=" + first_set(env, {"SLURM_STEP_NODELIST"});
  if (self.rank == 0 && place.value_or(0) != 0) {
    return "task 0 is on " + host + ", and not on " + list;
  }
  if (self.rank != 0 && self.local_rank == 0 && place == 0) {
    return "task 0 is not on " + host + ", " + list;
  }
  const std::string distribution = first_set(env, {"SLURM_DISTRIBUTION"});
  if (!distribution.starts_with("arbitrary")) return "";
  return "SLURM_DISTRIBUTION=" + distribution + " does not tell on which host task 0 is";
}

int slurm_tasks_on(int node, const EnvReader& env, const SchedulerEnv& self) {
  const std::string list = first_set(env, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (const auto tasks = tasks_on_node(list, node)) return *tasks;
  const int nodes = env.integer("SLURM_NNODES", 1).value_or(1);
  if (self.size % nodes == 0) return self.size / nodes;
  throw EnvironmentError("SLURM_TASKS_PER_NODE='" + list + "' does not tell how many of " +
                         std::to_string(self.size) + " tasks are on node " + std::to_string(node));
}

// A requeued job keeps its number, so the restart count is added.
std::string slurm_run_id(const EnvReader& env, std::uint32_t job, std::uint32_t step) {
  return "slurm-" + std::to_string(job) + "." + std::to_string(step) + "-" +
         std::to_string(env.integer("SLURM_RESTART_COUNT", 0).value_or(0));
}

// A step may have more tasks than its job asked for (srun --overcommit). But sbatch passes on the
// variables of a step in which it was called.
std::string remark_on_slurm_size(const EnvReader& env, int size) {
  const int of_job = env.integer("SLURM_NTASKS", 1).value_or(size);
  if (of_job >= size) return "";
  return "more than SLURM_NTASKS=" + std::to_string(of_job) +
         ": it may be inherited from another job";
}

SchedulerEnv parse_slurm(const EnvReader& env) {
  SchedulerEnv result;
  result.starter = "srun";
  // In a shell inside the step of an interactive job, SLURM_NTASKS is the job's.
  const bool has_own = env.has("SLURM_STEP_NUM_TASKS");
  read_size(env, has_own ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", result);
  if (result.size == 1) return result;
  result.size_remark = remark_on_slurm_size(env, result.size);
  result.rank = required(env.integer("SLURM_PROCID", 0), "SLURM_PROCID", result);
  result.local_rank = required(env.integer("SLURM_LOCALID", 0), "SLURM_LOCALID", result);
  result.node_rank = required(env.integer("SLURM_NODEID", 0), "SLURM_NODEID", result);
  const char* nodes = env.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  result.node_count = std::max(env.integer(nodes, 1).value_or(1), result.node_rank + 1);
  const std::optional<int> place = place_in_slurm_list(env);
  result.local_size = slurm_tasks_on(place.value_or(result.node_rank), env, result);
  result.meeting.host = first_slurm_host(env);
  result.doubt = doubt_first_host(env, result, place);
  const auto job = required(env.identifier("SLURM_JOB_ID"), "SLURM_JOB_ID", result);
  const auto step = required(env.identifier("SLURM_STEP_ID"), "SLURM_STEP_ID", result);
  result.meeting.port = meeting_port(job, step);
  result.run_id = slurm_run_id(env, job, step);
  return result;
}

// Both kinds of mpirun may use srun to reach the hosts; then srun's variables describe mpirun's
// helpers.
std::optional<SchedulerEnv> parse_any(const EnvReader& env) {
  if (env.has("OMPI_COMM_WORLD_SIZE")) return parse_open_mpi(env);
  if (env.has("PMI_SIZE") && env.has("MPI_LOCALNRANKS")) return parse_mpich(env);
  if (env.has("SLURM_STEP_ID")) return parse_slurm(env);
  return std::nullopt;
}

void check(const SchedulerEnv& env) {
  const bool contradicts = env.rank >= env.size || env.local_rank >= env.local_size ||
                           env.local_size > env.size || env.local_rank > env.rank;
  if (!contradicts) return;
  throw EnvironmentError("the variables of " + env.starter + " contradict each other: rank " +
                         std::to_string(env.rank) + " of " + std::to_string(env.size) +
                         ", on its host " + std::to_string(env.local_rank) + " of " +
                         std::to_string(env.local_size));
}

}  // namespace

std::string SchedulerEnv::describe_size() const {
  return starter + " started " + std::to_string(size) + " processes (" + size_variable +
         (size_remark.empty() ? "" : ", ") + size_remark + ")";
}

std::optional<SchedulerEnv> parse_scheduler_env(const EnvReader::Lookup& lookup) {
  const EnvReader env(lookup);
  std::optional<SchedulerEnv> result = parse_any(env);
  if (!result) return std::nullopt;
  check(*result);
  if (result->is_on_one_host()) result->meeting.host = "127.0.0.1";
  if (const auto host = env.text("MASTER_ADDR")) {
    result->meeting.host = *host;
    result->doubt.clear();
  }
  result->meeting.port = env.port("MASTER_PORT").value_or(result->meeting.port);
  return result;
}

std::uint16_t meeting_port(std::uint32_t job, std::uint32_t step) {
  return static_cast<std::uint16_t>(16384 + (101 * std::uint64_t{job} + step) % 16381);
}

}  // namespace ddp
