// SPDX-License-Identifier: MIT
#include "launcher/nodes/reachability.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenLookUps{250};
constexpr Timeout kSilence{2000};

NetworkError no_answer_about(const Endpoint& store, const Deadline& late) {
  const auto waited = std::chrono::ceil<std::chrono::seconds>(kLateName - late.remaining());
  return NetworkError(
      fmt::format("cannot resolve host '{}': no answer from the name server in {} s", store.host,
                  waited.count()));
}

bool is_own(const Endpoint& address) {
  try {
    (void)Socket::listen({address.host, 0});
    return true;
  } catch (const SystemError& error) {
    return !is_of_another_host(error);
  }
}

std::vector<Endpoint> of_others(std::span<const Endpoint> addresses) {
  std::vector<Endpoint> others;
  std::ranges::remove_copy_if(addresses, std::back_inserter(others), is_own);
  return others;
}

AddressList look_up_once(const Endpoint& store, const Deadline& late, Patience& patience) {
  LookUp look_up(store);
  while (!look_up.is_done_by(Deadline::after(Patience::kBetweenLooks))) {
    if (late.passed()) throw no_answer_about(store, late);
    patience.wait([&] { return describe(no_answer_about(store, late)); }, Timeout(0));
  }
  return look_up.take();
}

AddressList look_up_node0(const Endpoint& store, Patience& patience) {
  const Deadline late = Deadline::after(kLateName);
  for (;;) {
    try {
      return look_up_once(store, late, patience);
    } catch (const NetworkError& error) {
      if (late.passed()) throw;
      patience.wait([&] { return error.what(); }, kBetweenLookUps);
    }
  }
}

}  // namespace

std::vector<Endpoint> find_node0(const Endpoint& store, int node_count, Patience& patience) {
  const AddressList addresses = look_up_node0(store, patience);
  if (is_any(*addresses->ai_addr)) {
    throw LaunchError(
        fmt::format("{} is where a host listens at all its addresses, not where others reach node "
                    "0; give one of its addresses (--master_addr)",
                    store.host));
  }
  std::vector<Endpoint> reachable = endpoints_for_others(addresses);
  if (!reachable.empty()) return reachable;
  throw LaunchError(
      fmt::format("{} is a loopback address, which no other node can reach; give an address of "
                  "node 0 in the network that the {} nodes share (--master_addr); to try several "
                  "nodes on one machine, give one of "
                  "those that `hostname -I` prints",
                  store.host, node_count));
}

bool has_all(std::span<const Endpoint> addresses) { return std::ranges::all_of(addresses, is_own); }

bool has_all_that_live(std::span<const Endpoint> addresses) {
  const std::vector<Endpoint> others = of_others(addresses);
  return others.size() < addresses.size() && std::ranges::none_of(others, [](const Endpoint& each) {
           return host_answers(each, Deadline::after(kSilence));
         });
}

std::string why_not_node0(const Endpoint& name, std::span<const Endpoint> addresses) {
  const std::vector<Endpoint> others = of_others(addresses);
  if (others.empty() || others.size() == addresses.size()) return "";
  return fmt::format(
      "; {} also has {}: if this host is to be node 0, give all nodes a name that it alone has "
      "(--rdzv_endpoint)",
      name.host, others.front().host);
}

bool leads_elsewhere(const Endpoint& name, std::span<const Endpoint> addresses) {
  return !is_in_digits(name.host) && std::ranges::none_of(addresses, is_own);
}

void NameWatch::refresh(std::vector<Endpoint>& addresses) {
  if (addresses.empty() || !next_.passed()) return;
  if (!look_up_) look_up_.emplace(name_);
  if (!look_up_->is_done_by(Deadline::after(Timeout(0)))) return;
  try {
    auto found = endpoints_for_others(look_up_->take());
    if (!found.empty()) addresses = std::move(found);
  } catch (const NetworkError&) {
    // The known ones may still be right.
  }
  look_up_.reset();
  next_ = Deadline::after(period_);
}

}  // namespace ddp::launcher
