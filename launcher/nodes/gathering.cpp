// SPDX-License-Identifier: MIT
#include "launcher/nodes/gathering.h"

#include <algorithm>
#include <optional>

#include "launcher/nodes/node.h"
#include "launcher/nodes/node_keys.h"

namespace ddp::launcher {
namespace {

std::vector<std::string> node_keys(int count) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < count; ++rank) keys.push_back(node_key(rank));
  return keys;
}

}  // namespace

Gathering::Gathering(Store& store, int count)
    : store_(store), keys_(node_keys(count)), lives_(keys_.size()) {}

void Gathering::close_if_complete() {
  if (next_look_.passed()) look();
  if (!store_.check(keys_) || std::ranges::any_of(lives_, &NodeLife::is_dead)) return;
  std::string met;
  for (const std::string& key : keys_) {
    const std::optional<std::string> entry = store_.find(key);
    if (!entry) return;  // it has just left
    met += *entry;
  }
  store_.set(kMetKey, met);
}

std::string Gathering::silent_nodes() const {
  std::string text;
  for (std::size_t rank = 0; rank < lives_.size(); ++rank) {
    if (!lives_[rank].is_dead()) continue;
    const Node node = parse_node(lives_[rank].entry());
    text += "; " + describe_node(static_cast<int>(rank), node.host) + " shows no sign of life";
  }
  return text;
}

void Gathering::look() {
  next_look_ = Deadline::after(kSignPeriod);
  for (std::size_t rank = 0; rank < lives_.size(); ++rank) {
    const std::string entry = store_.find(keys_[rank]).value_or("");
    lives_[rank].look(entry, store_.add(alive_key(static_cast<int>(rank)), 0));
  }
}

}  // namespace ddp::launcher
