// SPDX-License-Identifier: MIT
#include "ddp/base/worker_env.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "ddp/base/error.h"

namespace ddp {
namespace {

// An empty variable counts as unset, as in PyTorch.
class Reader {
 public:
  explicit Reader(const WorkerEnv::Lookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] std::optional<std::string> text(const char* name) const {
    const char* value = lookup_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }

  [[nodiscard]] std::optional<int> integer(const char* name, int minimum) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int number = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, number);
    if (error != std::errc() || stop != end || number < minimum) {
      throw EnvironmentError(std::string(name) + "='" + *value +
                             "' is not an integer of at least " + std::to_string(minimum));
    }
    return number;
  }

  [[nodiscard]] bool flag(const char* name) const {
    const std::string value = text(name).value_or("False");
    return value == "True" || value == "true" || value == "1";
  }

  [[nodiscard]] bool has(const char* name) const { return text(name).has_value(); }

 private:
  const WorkerEnv::Lookup& lookup_;
};

constexpr const char* kRequired[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

std::string join_missing(const Reader& env) {
  std::string missing;
  for (const char* name : kRequired) {
    if (!env.has(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  return missing;
}

// Several processes that each take themselves for a world of one would train N separate models.
void refuse_foreign_launcher(const Reader& env) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE"}) {
    const auto tasks = env.integer(name, 0);
    if (tasks.value_or(1) > 1) {
      throw EnvironmentError(
          std::string(name) + "=" + std::to_string(*tasks) +
          " but RANK is not set: start the workers with ddp-launch, or set RANK, "
          "WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
    }
  }
}

void check_below(const char* name, int value, const char* bound_name, int bound) {
  if (value < bound) return;
  throw EnvironmentError(std::string(name) + "=" + std::to_string(value) + " must be below " +
                         bound_name + "=" + std::to_string(bound));
}

void read_local(const Reader& env, WorkerEnv& result) {
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

}  // namespace

WorkerEnv WorkerEnv::from_environment() {
  return parse([](const char* name) { return std::getenv(name); });
}

WorkerEnv WorkerEnv::parse(const Lookup& lookup) {
  const Reader env(lookup);
  WorkerEnv result;
  const std::string missing = join_missing(env);
  const bool none = missing == "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT";
  if (none && !env.has("LOCAL_RANK") && !env.has("LOCAL_WORLD_SIZE")) {
    refuse_foreign_launcher(env);
    return result;
  }
  if (!missing.empty()) {
    if (!env.has("RANK")) refuse_foreign_launcher(env);
    throw EnvironmentError("the worker environment is incomplete: " + missing +
                           " not set (set all of RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or "
                           "none of them for a single process)");
  }
  result.world_size = *env.integer("WORLD_SIZE", 1);
  result.rank = *env.integer("RANK", 0);
  check_below("RANK", result.rank, "WORLD_SIZE", result.world_size);
  read_local(env, result);
  result.node_rank = env.integer("GROUP_RANK", 0).value_or(0);
  const int port = *env.integer("MASTER_PORT", 1);
  if (port > 65535) throw EnvironmentError("MASTER_PORT=" + std::to_string(port) + " is no port");
  result.master = {*env.text("MASTER_ADDR"), static_cast<std::uint16_t>(port)};
  result.restart_count = env.integer("TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  result.run_id = env.text("TORCHELASTIC_RUN_ID").value_or("none");
  result.agent_hosts_store = env.flag("TORCHELASTIC_USE_AGENT_STORE");
  result.shares_gpus = env.flag("DDP_OVERSUBSCRIBE");
  return result;
}

}  // namespace ddp
