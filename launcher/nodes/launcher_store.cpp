// SPDX-License-Identifier: MIT
#include "launcher/nodes/launcher_store.h"

#include <fmt/core.h>

#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/number_in.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/node.h"
#include "launcher/nodes/node_keys.h"
#include "launcher/nodes/worker_keys.h"

namespace ddp::launcher {
namespace {

constexpr const char* kRunIdKey = "run_id";
constexpr const char* kTermsKey = "terms";
constexpr const char* kWorkerPortKey = "worker_port";
constexpr const char* kRefusedKey = "refused";

}  // namespace

std::shared_ptr<Store> open_launcher_store(std::span<const Endpoint> addresses, Timeout timeout) {
  const Timeout share = timeout / std::ssize(addresses);
  std::string reasons;
  for (const Endpoint& address : addresses) {
    try {
      std::shared_ptr<Store> store =
          std::make_shared<TcpStore>(address, TcpStoreOptions{.timeout = share, .spin = {}});
      if (share < timeout) store = store->clone(timeout);
      return std::make_shared<PrefixStore>(kLauncherPrefix, std::move(store));
    } catch (const Error& error) {
      reasons += (reasons.empty() ? "" : "; ") + describe(error);
    }
  }
  throw NetworkError(reasons);
}

void announce(Store& store, const NodePlan& plan) {
  store.set(kWorkerPortKey, std::to_string(plan.worker_port));
  store.set(kTermsKey, plan.terms);
  store.set(kRunIdKey, plan.run_id);  // the last one: the others wait for it
}

std::string agreed_run_id(Store& store, const NodePlan& plan) {
  std::string agreed = store.find(kRunIdKey).value_or("");
  if (agreed.empty()) return agreed;
  if (plan.run_id.empty() || agreed == plan.run_id) return agreed;
  throw LaunchError(fmt::format("the store at {} serves job '{}', not '{}' (--rdzv_id)",
                                to_string(plan.store), agreed, plan.run_id));
}

void check_terms(Store& store, const NodePlan& plan) {
  const std::string agreed = store.get(kTermsKey);
  if (agreed == plan.terms) return;
  throw LaunchError(
      fmt::format("node 0 has {}, this node has {}: these flags must be equal on all nodes", agreed,
                  plan.terms));
}

std::uint16_t agreed_worker_port(Store& store) {
  const auto port = number_in<std::uint16_t>(store.get(kWorkerPortKey));
  return port ? *port : throw LaunchError(kOtherVersion);
}

std::string last_refusal(Store& store) { return store.find(kRefusedKey).value_or(""); }

void write_refusal(Store& store, const std::string& host, const LaunchError& reason) {
  store.set(kRefusedKey, host + ": " + reason.what());
}

void withdraw_refusal(Store& store, const std::string& host) {
  if (last_refusal(store).starts_with(host + ": ")) store.delete_key(kRefusedKey);
}

// The launchers of a job count themselves when they leave it.
bool is_over(Store& store) { return store.has(kLeftKey); }

bool serves_ending_job(std::span<const Endpoint> addresses) noexcept try {
  return is_over(*open_launcher_store(addresses));
} catch (const std::exception&) {
  return false;
}

}  // namespace ddp::launcher
