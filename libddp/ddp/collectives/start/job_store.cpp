// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/job_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/net/resolve.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/system/host_name.h"
#include "ddp/base/threads/periodic_thread.h"
#include "ddp/base/threads/timed_mutex.h"
#include "ddp/store/store_connection.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"

namespace ddp {
namespace {

// Ranks of other hosts read the cause of a failure up to FirstError::kPeriod after rank 0.
constexpr Timeout kFarewell{1000};

// To resolve a peer's name for a message.
constexpr Timeout kRemarkTimeout = std::chrono::seconds(1);

constexpr Timeout kUntilNameChanges = std::chrono::seconds(1);
constexpr Timeout kUntilStoreIsThere{250};

// Where other hosts reach this one, if the name has such addresses of this host: rank 0's own
// connection then also has an address that others can use.
std::shared_ptr<TcpServer> serve_at(const AddressList& addresses) {
  const TcpServerOptions options{.farewell = kFarewell};
  const std::vector<Endpoint> all = endpoints_of(addresses);
  const std::vector<Endpoint> for_others = endpoints_for_others(addresses);
  try {
    return std::make_shared<TcpServer>(for_others.empty() ? all : for_others, options);
  } catch (const SystemError& error) {
    if (!is_of_another_host(error) || for_others.size() == all.size()) throw;
    return std::make_shared<TcpServer>(all, options);
  }
}

std::string about_rank0() {
  return "rank 0 (" + host_name() + ", pid " + std::to_string(::getpid()) +
         ") hosts the store, but ";
}

// Why rank 0 cannot listen, and how the user gives another address than a scheduler's.
std::string not_own_address(const WorkerEnv& env) {
  if (env.master_source.empty()) return "MASTER_ADDR is not an address of its host";
  const bool is_mpirun = env.master_source == "mpirun";
  return "the address in the variables of " + env.master_source + " is not one of its host (" +
         (is_mpirun ? "mpirun -x MASTER_ADDR=HOST_OF_RANK_0"
                    : "export MASTER_ADDR=HOST_OF_RANK_0 before " + env.master_source) +
         ")";
}

// A name may appear late, and lead to the last address of a host that was just started.
std::shared_ptr<TcpServer> serve_at_name(const WorkerEnv& env, Timeout timeout) {
  const Endpoint& endpoint = env.master;
  const Deadline late = Deadline::after(std::min(timeout, kLateName));
  for (bool has_told = false;;) {
    try {
      return serve_at(resolve_patiently(endpoint, late));
    } catch (const SystemError& error) {
      const bool may_change = error.error_number() == EADDRNOTAVAIL && !is_in_digits(endpoint.host);
      if (!may_change || late.remaining() < kUntilNameChanges) throw;
      if (!std::exchange(has_told, true)) {
        logging::warning("[init] " + about_rank0() + not_own_address(env) + ": " + error.what() +
                         "; asking for '" + endpoint.host + "' again, since it may change");
      }
    }
    std::this_thread::sleep_for(kUntilNameChanges);
  }
}

// "node0:29500 (10.0.0.1:29500)": the addresses tell whether the name is the right host's.
std::string with_addresses(const Endpoint& endpoint, const std::vector<Endpoint>& addresses) {
  if (addresses == std::vector{endpoint}) return to_string(endpoint);
  std::string text;
  for (const Endpoint& each : addresses) text += (text.empty() ? "" : ", ") + to_string(each);
  return to_string(endpoint) + " (" + text + ")";
}

std::string with_addresses(const Endpoint& endpoint) try {
  return with_addresses(endpoint,
                        endpoints_of(resolve(endpoint, 0, Deadline::after(kRemarkTimeout))));
} catch (const NetworkError&) {
  return to_string(endpoint);
}

// False if the name server does not say.
bool only_this_host_reaches(const Endpoint& endpoint) try {
  return endpoints_for_others(resolve(endpoint, 0, Deadline::after(kRemarkTimeout))).empty();
} catch (const NetworkError&) {
  return false;
}

// The place of a store that this rank hosts.
std::string describe_place(const TcpServer& server, const Endpoint& endpoint) {
  const std::string text = with_addresses(endpoint, server.endpoints());
  if (text == to_string(endpoint) ||
      !std::ranges::all_of(server.endpoints(), only_this_host_reaches))
    return text;
  return text +
         ", which only this host can reach: give MASTER_ADDR another address of it, unless "
         "all ranks are here";
}

// Groups of this process that live at the same time, and whose stores are at the same place, share
// one server.
std::shared_ptr<TcpServer> host_store(const WorkerEnv& env, Timeout timeout) try {
  static TimedMutex mutex;
  static std::map<std::string, std::weak_ptr<TcpServer>> hosted;  // by endpoint
  const Deadline deadline = Deadline::after(timeout);
  const std::unique_lock lock(mutex, deadline.time_point());
  const std::string place = to_string(env.master);
  if (!lock.owns_lock()) {
    throw TimeoutError(about_rank0() + "another thread of it still opens one, for " + place);
  }
  std::erase_if(hosted, [](const auto& each) { return each.second.expired(); });
  if (const auto shared = hosted.find(place); shared != hosted.end()) return shared->second.lock();
  auto server = serve_at_name(env, deadline.remaining());
  hosted[place] = server;
  return server;
} catch (const SystemError& error) {
  if (error.error_number() == EADDRNOTAVAIL) {
    std::throw_with_nested(EnvironmentError(about_rank0() + not_own_address(env)));
  }
  if (error.error_number() != EADDRINUSE) throw;
  std::throw_with_nested(EnvironmentError(
      about_rank0() + "MASTER_PORT is taken: by another rank 0 of this job, or by another job"));
}

// Names the endpoint that could not be reached, if the whole time has passed; other errors are
// rethrown as they are.
[[noreturn]] void rethrow_unreachable(const WorkerEnv& env, Deadline deadline,
                                      const StartPatience& patience) {
  if (!deadline.passed()) throw;
  std::throw_with_nested(TimeoutError("[init] rank " + std::to_string(env.rank) +
                                      " has not reached " + patience.place() + " in " +
                                      patience.waited()));
}

// Connects, while a thread logs every few seconds that there is no answer yet. A proxy between
// hosts may take connections before the store is there, and closes them.
std::shared_ptr<TcpStore> connect_to(const WorkerEnv& env, Deadline deadline,
                                     StartPatience& patience) try {
  std::mutex mutex;
  std::string refusal;  // under mutex: of the last try
  const PeriodicThread voice("ddp-start", patience.period(), [&] {
    if (patience.is_due()) {
      patience.set_store(with_addresses(env.master));
      const std::lock_guard lock(mutex);
      patience.report("[init] no answer from " + patience.place() + " after " + patience.waited() +
                      "; rank 0 or its launcher hosts it" + refusal);
    }
    return true;
  });
  for (;;) {
    try {
      return std::make_shared<TcpStore>(env.master, deadline.remaining(), env.rank);
    } catch (const NoStoreError& error) {
      if (deadline.remaining() < kUntilStoreIsThere || only_this_host_reaches(env.master)) throw;
      const std::lock_guard lock(mutex);
      refusal = std::string("; last try: ") + error.what();
    }
    std::this_thread::sleep_for(kUntilStoreIsThere);
  }
} catch (const Error&) {
  rethrow_unreachable(env, deadline, patience);
}

}  // namespace

JobStore open_job_store(const InitOptions& options, const WorkerEnv& env, Timeout timeout,
                        StartPatience& patience) {
  if (options.store) return {options.store};
  if (env.rank != 0 || env.agent_hosts_store) {
    const auto client = connect_to(env, Deadline::after(timeout), patience);
    return {client, client->local_address(), !env.agent_hosts_store};
  }
  const auto server = host_store(env, timeout);
  patience.set_store(describe_place(*server, env.master));
  const auto client = std::make_shared<TcpStore>(
      server->endpoint(), TcpStoreOptions{.timeout = timeout, .rank = 0, .keeps = server});
  return {client, client->local_address(), true};
}

std::string address_of(const InitOptions& options, const WorkerEnv& env, const JobStore& store,
                       Timeout timeout) {
  if (!options.address.empty()) return options.address;
  if (!store.local_address.empty()) return store.local_address;
  if (options.master) return TcpStore(env.master, timeout, env.rank).local_address();
  if (options.ranks_are_threads) return "127.0.0.1";
  throw EnvironmentError("[init] rank " + std::to_string(env.rank) +
                         " was given a store, but no address at which others reach it: give "
                         ".address or .master to init_process_group");
}

}  // namespace ddp
