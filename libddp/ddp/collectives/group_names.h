// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"

namespace ddp {

// What a group's messages call its ranks and the group itself. A rank has the number that it has in
// the job, whatever its number in the group: that is the one by which the launcher and the logs
// know it. The peer of a send or recv, and a root, keep the group's number, as the call gave them;
// so the group is named beside the operation, unless it is the job's first one.
class GroupNames {
 public:
  explicit GroupNames(const GroupConfig& config);

  // "rank 5".
  [[nodiscard]] std::string rank(int rank) const;
  [[nodiscard]] std::string self() const { return rank(self_); }
  // "ranks 2, 5". The group's ranks ascend; the job's need not.
  [[nodiscard]] std::string ranks(const std::vector<int>& ranks) const;
  // "rank 5 called #12 all_reduce(float32[1024], sum) (bucket 4: layer3.*)", with the label if this
  // rank has it, too.
  [[nodiscard]] std::string call(int rank, const CollectiveSignature& signature) const;
  // The text of a MismatchError: the calls of two ranks, the lower one's first, and the group. If
  // the issuers differ, it names these, too.
  [[nodiscard]] std::string mismatch(int rank, const CollectiveSignature& call, int other,
                                     const CollectiveSignature& others_call) const;
  // The same if only one call is known.
  [[nodiscard]] std::string mismatch(int rank, const CollectiveSignature& call) const;
  // The sentence of a TransferMismatchError, for a recv by `rank` that meets another send than it
  // expects; empty if it is the one.
  [[nodiscard]] std::string mismatch_of_transfer(int rank, const CollectiveSignature& recv,
                                                 int sender, const CollectiveSignature& send) const;
  // Whether an engine calls it in its constructor, as far as this rank knows the label.
  [[nodiscard]] bool is_construction(const CollectiveSignature& signature) const;
  // " of group default/split0", to be put behind an operation; empty for the job's first group.
  [[nodiscard]] const std::string& of_group() const { return of_group_; }

 private:
  std::shared_ptr<const OperationLabels> labels_;  // may be null
  int self_;
  std::vector<int> job_ranks_;  // by rank in the group
  std::string of_group_;
};

// As of_group(), for a group of this name.
[[nodiscard]] std::string of_group(const std::string& name);

}  // namespace ddp
