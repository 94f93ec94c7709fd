// SPDX-License-Identifier: MIT
#include "ddp/collectives/group_names.h"

#include <algorithm>

#include "ddp/base/rank_list.h"
#include "ddp/collectives/hang/operation_labels.h"

namespace ddp {
namespace {

constexpr const char* kDifferent = "ranks called different collectives: ";

// What helps if calls differ in their issuers. `one_constructs`: one of the two constructs an
// engine.
std::string advice(const CollectiveSignature& first, const CollectiveSignature& second,
                   bool one_constructs) {
  if (first.issuer != 0 && second.issuer != 0 && one_constructs) {
    return "; one rank constructs an engine and the other is in a step of another: all ranks must "
           "make the same steps, also if an exception ends one of them, and then construct it";
  }
  if (first.issuer != 0 && second.issuer != 0) {
    return "; all ranks must use the engines of a group in the same order (a duplicate() of the "
           "group helps only engines in threads of their own), and one thread at a time may use it";
  }
  return "; one rank is in a call of DistributedDataParallel (a step, broadcast_buffers(), its "
         "construction) and the other is not: all ranks must make the same calls in the same "
         "order, and equally many steps (StepOptions::is_active is for those that run out of data)";
}

std::string describe_issuer(const CollectiveSignature& signature) {
  if (signature.issuer == 0) return " by itself";
  return " for DistributedDataParallel " + std::to_string(signature.issuer) + " of the group";
}

}  // namespace

GroupNames::GroupNames(const GroupConfig& config)
    : labels_(config.job.labels), self_(config.rank), of_group_(ddp::of_group(config.name)) {
  for (int rank = 0; rank < config.world_size; ++rank) job_ranks_.push_back(config.job_rank(rank));
}

std::string GroupNames::rank(int rank) const {
  return "rank " + std::to_string(job_ranks_.at(static_cast<std::size_t>(rank)));
}

std::string GroupNames::ranks(const std::vector<int>& ranks) const {
  std::vector<int> of_job;
  for (const int rank : ranks) of_job.push_back(job_ranks_.at(static_cast<std::size_t>(rank)));
  std::ranges::sort(of_job);
  return rank_list(of_job);
}

bool GroupNames::is_construction(const CollectiveSignature& signature) const {
  return labels_ && labels_->text_of_hash(signature.label) == kEngineConstruction;
}

std::string GroupNames::call(int rank, const CollectiveSignature& signature) const {
  const std::string label = labels_ ? labels_->text_of_hash(signature.label) : "";
  return this->rank(rank) + " called " + to_string(signature) +
         (label.empty() ? "" : " (" + label + ")");
}

std::string GroupNames::mismatch(int rank, const CollectiveSignature& call, int other,
                                 const CollectiveSignature& others_call) const {
  if (other < rank) return mismatch(other, others_call, rank, call);
  const bool is_of_another = call.issuer != others_call.issuer;
  const auto describe = [&](int caller, const CollectiveSignature& signature) {
    return this->call(caller, signature) + (is_of_another ? describe_issuer(signature) : "");
  };
  return kDifferent + describe(rank, call) + ", " + describe(other, others_call) + of_group_ +
         (is_of_another
              ? advice(call, others_call, is_construction(call) != is_construction(others_call))
              : "");
}

std::string GroupNames::mismatch(int rank, const CollectiveSignature& call) const {
  return kDifferent + this->call(rank, call) + of_group_;
}

std::string GroupNames::mismatch_of_transfer(int rank, const CollectiveSignature& recv, int sender,
                                             const CollectiveSignature& send) const {
  CollectiveSignature expected = recv;
  expected.kind = CollectiveKind::kSend;
  if (send == expected) return "";
  return "send and recv" + of_group_ + " differ: " + this->rank(sender) + " called " +
         to_string(send) + " to " + this->rank(rank) + ", which called " + to_string(recv);
}

// A group that is made from another has that one's name and a slash before its own.
std::string of_group(const std::string& name) {
  return name.find('/') == std::string::npos ? "" : " of group " + name;
}

}  // namespace ddp
