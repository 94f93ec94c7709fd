// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

namespace ddp {

// Which ranks of a group share a host. Hosts are ordered by their lowest ranks, the ranks of a host
// by number; the first rank of a host is its leader.
struct HostLayout {
  struct Place {
    int host = 0;
    int local_rank = 0;
  };

  HostLayout() = default;
  // hosts[r] is any number that is equal for ranks that can share memory.
  explicit HostLayout(const std::vector<int>& hosts);

  [[nodiscard]] int host_count() const { return static_cast<int>(members.size()); }
  [[nodiscard]] int world_size() const { return static_cast<int>(places.size()); }
  [[nodiscard]] Place place(int rank) const { return places[static_cast<std::size_t>(rank)]; }
  // The number of ranks on the largest host.
  [[nodiscard]] std::size_t width() const;
  // The lowest rank of each host.
  [[nodiscard]] std::vector<int> leaders() const;

  std::vector<std::vector<int>> members;  // ranks, by host
  std::vector<Place> places;              // by rank
};

}  // namespace ddp
