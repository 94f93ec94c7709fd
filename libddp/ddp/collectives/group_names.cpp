// SPDX-License-Identifier: MIT
#include "ddp/collectives/group_names.h"

#include <algorithm>

#include "ddp/base/rank_list.h"

namespace ddp {

GroupNames::GroupNames(const GroupConfig& config)
    : job_ranks_(config.job_ranks), of_group_(ddp::of_group(config.name)) {}

int GroupNames::job_rank(int rank) const {
  return job_ranks_.empty() ? rank : job_ranks_[static_cast<std::size_t>(rank)];
}

std::string GroupNames::rank(int rank) const { return "rank " + std::to_string(job_rank(rank)); }

std::string GroupNames::ranks(const std::vector<int>& ranks) const {
  std::vector<int> of_job;
  for (const int rank : ranks) of_job.push_back(job_rank(rank));
  std::ranges::sort(of_job);
  return rank_list(of_job);
}

// A group that is made from another has that one's name and a slash before its own.
std::string of_group(const std::string& name) {
  return name.find('/') == std::string::npos ? "" : " of group " + name;
}

}  // namespace ddp
