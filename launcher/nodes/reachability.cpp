// SPDX-License-Identifier: MIT
#include "launcher/nodes/reachability.h"

#include <fmt/core.h>

#include <chrono>
#include <string>

#include "ddp/base/error.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenLookUps{250};

NetworkError no_answer_about(const Endpoint& store, const Deadline& late) {
  const auto waited = std::chrono::ceil<std::chrono::seconds>(kLateName - late.remaining());
  return NetworkError(
      fmt::format("cannot resolve host '{}': no answer from the name server in {} s", store.host,
                  waited.count()));
}

AddressList look_up_once(const Endpoint& store, const Deadline& late, Patience& patience) {
  LookUp look_up(store);
  while (!look_up.is_done_by(Deadline::after(Patience::kBetweenLooks))) {
    if (late.passed()) throw no_answer_about(store, late);
    patience.wait([&] { return no_answer_about(store, late).what(); }, Timeout(0));
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
  if (!is_loopback(*addresses->ai_addr)) return endpoints_of(addresses);
  throw LaunchError(
      fmt::format("{} is a loopback address, which no other node can reach; give an address of "
                  "node 0 in the network that the {} nodes share (--master_addr); to try several "
                  "nodes on one machine, give one of "
                  "those that `hostname -I` prints",
                  store.host, node_count));
}

void NameWatch::refresh(std::vector<Endpoint>& addresses) {
  if (addresses.empty() || !next_.passed()) return;
  if (!look_up_) look_up_.emplace(name_);
  if (!look_up_->is_done_by(Deadline::after(Timeout(0)))) return;
  try {
    addresses = endpoints_of(look_up_->take());
  } catch (const NetworkError&) {
    // The known ones may still be right.
  }
  look_up_.reset();
  next_ = Deadline::after(period_);
}

}  // namespace ddp::launcher
