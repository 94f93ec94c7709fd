// SPDX-License-Identifier: MIT
#include "ddp/collectives/hierarchical/inside_host.h"

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

void InsideHost::reduce(const Buffer& data, ReduceOp op) const {
  if (group_) group_->reduce(data, 0, op).wait();
}

void InsideHost::broadcast(const Buffer& data, int from) const {
  if (group_) group_->broadcast(data, from).wait();
}

void InsideHost::gather(const Buffer& input, const Buffer& block) const {
  if (!group_) return cpu::copy(input, block.slice(0, input.count));
  group_->gather(input, block.slice(0, input.count * size()), 0).wait();
}

void InsideHost::scatter(const Buffer& block, const Buffer& output) const {
  if (!group_) return cpu::copy(block.slice(0, output.count), output);
  group_->scatter(block.slice(0, output.count * size()), output, 0).wait();
}

void InsideHost::move(const Buffer& data, int from, int to) const {
  if (from == to) return;
  if (rank() == from) group_->send(data, to).wait();
  if (rank() == to) group_->recv(data, from).wait();
}

void InsideHost::barrier() const {
  if (group_) group_->barrier().wait();
}

}  // namespace ddp
