// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/agreement.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/host_name.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

std::string name_of_run(const WorkerEnv& env) { return "ddp/" + env.run_id; }

// A worker that outlived its attempt must not meet the workers of the next one. From the second
// attempt on, ddp-launch stores the current attempt's number.
void refuse_if_stale(const std::shared_ptr<Store>& store, const WorkerEnv& env) {
  const auto current = PrefixStore(name_of_run(env), store).find("attempt");
  if (!current || *current == std::to_string(env.restart_count)) return;
  throw EnvironmentError("[init] rank " + std::to_string(env.rank) + " (" + host_name() + ", pid " +
                         std::to_string(::getpid()) + ") belongs to attempt " +
                         std::to_string(env.restart_count) + ", but attempt " + *current +
                         " of this job is running");
}

// Whether this process has met others in a store that rank 0 hosted, which may still be closing.
std::atomic<bool> has_met_at_rank0 = false;

// Nothing if the store was lost that rank 0 hosted for an earlier group: of this process, or of an
// earlier job, in which another process had this one's rank, and has ended. After such a store the
// next connection may still lead there. While this rank registers itself, it does not know yet.
std::optional<Agreement> try_to_agree(JobStore store, const Hello& self, const WorkerEnv& env,
                                      StartPatience& patience, bool is_after_earlier_group) {
  bool may_be_of_earlier_group = is_after_earlier_group || store.is_at_rank0;
  try {
    refuse_if_stale(store.store, env);
    // A process may initialise more than once, and must not read the keys of the previous time.
    Claim claim = claim_rank(store_of_attempt(store.store, env), self);
    may_be_of_earlier_group = claim.is_later && store.is_at_rank0;
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

}  // namespace

std::shared_ptr<Store> store_of_attempt(const std::shared_ptr<Store>& store, const WorkerEnv& env) {
  return std::make_shared<PrefixStore>(
      name_of_run(env) + "/attempt_" + std::to_string(env.restart_count), store);
}

Agreement agree(const InitOptions& options, const Hello& self, const WorkerEnv& env,
                Timeout start_timeout, StartPatience& patience) {
  constexpr Timeout kPause{50};
  for (bool is_after_earlier_group = has_met_at_rank0.load();; is_after_earlier_group = true) {
    auto store = try_to_open_store(options, env, start_timeout, patience, is_after_earlier_group);
    if (store) {
      auto agreement = try_to_agree(*std::move(store), self, env, patience, is_after_earlier_group);
      if (agreement) {
        if (agreement->job.is_at_rank0) has_met_at_rank0.store(true);
        return *std::move(agreement);
      }
    }
    logging::debug("[init] " + patience.place() + " was that of an earlier group");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace ddp
