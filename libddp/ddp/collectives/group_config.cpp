// SPDX-License-Identifier: MIT
#include "ddp/collectives/group_config.h"

#include <algorithm>

#include "ddp/store/prefix_store.h"

namespace ddp {

GroupConfig part_config(const GroupConfig& whole, const std::string& name,
                        std::span<const int> members) {
  const auto self = std::ranges::find(members, whole.rank);
  GroupConfig part = whole;
  part.store = std::make_shared<PrefixStore>(name, whole.store);
  part.background_store = std::make_shared<PrefixStore>(name, whole.background_store);
  part.rank = static_cast<int>(self - members.begin());
  part.world_size = static_cast<int>(members.size());
  part.name = whole.name + "/" + name;
  part.job_ranks.clear();
  for (const int member : members) part.job_ranks.push_back(whole.job_rank(member));
  return part;
}

}  // namespace ddp
