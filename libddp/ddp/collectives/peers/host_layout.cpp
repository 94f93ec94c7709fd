// SPDX-License-Identifier: MIT
#include "ddp/collectives/peers/host_layout.h"

#include <algorithm>
#include <map>

namespace ddp {

HostLayout::HostLayout(const std::vector<int>& hosts) {
  std::map<int, int> numbers;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [entry, is_new] = numbers.emplace(hosts[rank], host_count());
    if (is_new) members.emplace_back();
    std::vector<int>& fellows = members[static_cast<std::size_t>(entry->second)];
    places.push_back({entry->second, static_cast<int>(fellows.size())});
    fellows.push_back(static_cast<int>(rank));
  }
}

std::size_t HostLayout::width() const {
  std::size_t most = 0;
  for (const std::vector<int>& fellows : members) most = std::max(most, fellows.size());
  return most;
}

std::vector<int> HostLayout::leaders() const {
  std::vector<int> ranks;
  for (const std::vector<int>& fellows : members) ranks.push_back(fellows.front());
  return ranks;
}

}  // namespace ddp
