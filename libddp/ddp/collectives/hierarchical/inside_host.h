// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// The steps of a collective inside one host; each blocks. They use the host's group or, for a rank
// that is alone on its host, a copy or nothing. Ranks are numbered inside the host; 0 is the
// leader.
class InsideHost {
 public:
  // `group` is null for a rank that is alone.
  explicit InsideHost(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  [[nodiscard]] ProcessGroup* group() const { return group_.get(); }
  [[nodiscard]] int rank() const { return group_ ? group_->rank() : 0; }
  [[nodiscard]] std::size_t size() const {
    return group_ ? static_cast<std::size_t>(group_->world_size()) : 1;
  }

  // To the leader, in place; the other ranks' data are only read.
  void reduce(const Buffer& data, ReduceOp op) const;
  void broadcast(const Buffer& data, int from) const;
  // All ranks' inputs, one after the other, at the start of the leader's block.
  void gather(const Buffer& input, const Buffer& block) const;
  // The reverse of gather.
  void scatter(const Buffer& block, const Buffer& output) const;
  // From one rank to another, or to itself.
  void move(const Buffer& data, int from, int to) const;
  void barrier() const;

 private:
  std::shared_ptr<ProcessGroup> group_;
};

}  // namespace ddp
