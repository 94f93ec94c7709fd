// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_transfer.h"

#include <algorithm>
#include <cstring>

#include "ddp/base/round_up.h"

namespace ddp::shm {

Transfer::Transfer(Member& self, const Collective& operation, std::uint64_t sequence)
    : self_(&self),
      channel_(operation.kind == CollectiveKind::kSend
                   ? &self.segment().channel(self.rank(), operation.peer)
                   : &self.segment().channel(operation.peer, self.rank())),
      signature_(signature_of(operation, sequence)),
      peer_(operation.peer),
      sends_(operation.kind == CollectiveKind::kSend),
      data_(static_cast<std::byte*>(operation.input.data)),
      size_bytes_(operation.input.size_bytes()),
      total_blocks_(std::max<std::size_t>(1, divide_up(size_bytes_, kChannelBlockBytes))),
      timeout_(operation.context.timeout),
      deadline_(self.clock().after(operation.context.timeout)) {}

bool Transfer::can_advance() const {
  const std::uint32_t filled = channel_->written.load() - channel_->read.load();
  return sends_ ? filled < kChannelBlocks : filled > 0;
}

bool Transfer::advance() {
  while (!done() && can_advance()) move_block();
  return done();
}

void Transfer::move_block() {
  std::atomic<std::uint32_t>& mine = sends_ ? channel_->written : channel_->read;
  const std::uint32_t position = mine.load(std::memory_order_relaxed);
  const std::size_t offset = moved_blocks_ * kChannelBlockBytes;
  const std::size_t length = std::min(kChannelBlockBytes, size_bytes_ - offset);
  const std::uint32_t index = position % kChannelBlocks;
  std::byte* block = channel_->blocks[index];
  if (sends_) {
    channel_->signatures[index] = signature_;
    if (length > 0) std::memcpy(block, data_ + offset, length);
  } else {
    check_signature(channel_->signatures[index]);
    if (length > 0) std::memcpy(data_ + offset, block, length);
  }
  mine.store(position + 1);
  ++moved_blocks_;
  self_->ring(peer_);
}

void Transfer::check_signature(const CollectiveSignature& theirs) {
  const std::string sentence =
      self_->names().mismatch_of_transfer(self_->rank(), signature_, peer_, theirs);
  if (sentence.empty()) return;
  std::rethrow_exception(self_->fail({Cause::kTransferMismatch, sentence, "[shm] "}));
}

TransferRunner::TransferRunner(Member& self) : self_(self), counts_(self.world_size()) {}

void TransferRunner::run(std::span<const Collective> batch) {
  running_.clear();
  for (const Collective& operation : batch) {
    if (is_transfer(operation.kind)) begin(operation);
  }
  for (advance(); !running_.empty(); advance()) wait();
}

void TransferRunner::begin(const Collective& operation) {
  running_.emplace_back(self_, operation, counts_.next(operation));
}

void TransferRunner::advance() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (!is_behind_another(i)) running_[i].advance();
  }
  std::erase_if(running_, [](const Transfer& each) { return each.done(); });
}

// Waits until one of them can advance, at most until the first of their deadlines.
void TransferRunner::wait() {
  const Transfer& first_to_end = *std::ranges::min_element(
      running_, {}, [](const Transfer& each) { return each.deadline().time_point(); });
  self_.begin_call(first_to_end.signature(), first_to_end.peer());
  self_.set_timeout(first_to_end.timeout());
  self_.wait_until([this] { return std::ranges::any_of(running_, &Transfer::can_advance); },
                   [this](int peer) {
                     return std::ranges::find(running_, peer, &Transfer::peer) != running_.end();
                   },
                   first_to_end.deadline());
}

// True if an earlier, unfinished transfer uses the same channel.
bool TransferRunner::is_behind_another(std::size_t index) const {
  const auto end = running_.begin() + static_cast<std::ptrdiff_t>(index);
  return std::any_of(running_.begin(), end, [&](const Transfer& other) {
    return !other.done() && other.shares_channel_with(running_[index]);
  });
}

}  // namespace ddp::shm
