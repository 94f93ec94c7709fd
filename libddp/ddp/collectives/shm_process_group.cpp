// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm_process_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/operand_memory.h"
#include "ddp/collectives/operation_queue.h"
#include "ddp/collectives/shm_algorithms.h"
#include "ddp/collectives/shm_context.h"
#include "ddp/collectives/shm_transfer.h"

namespace ddp {
namespace {

// The queue's thread runs what is submitted, inside the shared memory.
class ShmProcessGroup final : public ProcessGroup {
 public:
  explicit ShmProcessGroup(GroupConfig group_config)
      : ProcessGroup(std::move(group_config)),
        context_(config(), shared_recorder()),
        sent_(static_cast<std::size_t>(world_size())),
        received_(static_cast<std::size_t>(world_size())),
        queue_("ddp-shm", "[shm] rank " + std::to_string(rank()), shared_recorder(),
               [this](std::span<const Collective> batch) { execute(batch); }) {}

  ~ShmProcessGroup() override {
    queue_.stop([this] { context_.leave(); });
  }

  std::string_view backend() const override { return "shm"; }

  void group_begin() override { queue_.begin_batch(); }
  Work group_end() override { return {this, queue_.end_batch()}; }

  Allocation allocate(std::size_t size_bytes) override {
    return allocate_operand_memory(size_bytes, queue_, weak_from_this());
  }

 protected:
  void do_abort(std::string_view reason) override {
    const std::string text =
        "[shm] rank " + std::to_string(rank()) + " aborted: " + std::string(reason);
    queue_.fail(context_.fail(shm::Cause::kPeer, text));
  }
  std::uint64_t submit(const Collective& collective, Stream) override {
    return queue_.submit(collective);
  }
  // Bounded all the same: the operations before it and the operation itself time out.
  void wait(std::uint64_t sequence, Stream) override { queue_.wait(sequence, Timeout::max()); }
  void wait_host(std::uint64_t sequence, Timeout timeout) override {
    queue_.wait(sequence, timeout);
  }
  void time_last(std::uint64_t) override {}  // the queue always does
  std::optional<Interval> interval(std::uint64_t sequence) override {
    return queue_.interval(sequence);
  }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_shm_process_group(std::move(child));
  }

 private:
  void execute(std::span<const Collective> batch) {
    run_transfers(batch);
    for (const Collective& operation : batch) {
      if (is_transfer(operation.kind)) continue;
      context_.set_timeout(operation.timeout);
      context_.begin_collective(signature_of(operation, ++collectives_));
      shm::run_collective(context_, operation);
      context_.end_collective();
    }
  }

  // All transfers of a batch advance in turn, so that two ranks may send to each other at once.
  // Those of one direction between two ranks keep their order.
  void run_transfers(std::span<const Collective> batch) {
    transfers_.clear();
    for (const Collective& operation : batch) {
      if (!is_transfer(operation.kind)) continue;
      auto& counts = operation.kind == CollectiveKind::kSend ? sent_ : received_;
      const std::uint64_t sequence = ++counts[static_cast<std::size_t>(operation.peer)];
      transfers_.emplace_back(context_, operation, sequence);
      context_.set_timeout(operation.timeout);
    }
    while (!transfers_.empty()) {
      advance_transfers();
      if (transfers_.empty()) return;
      context_.begin_transfer(transfers_.front().signature(), transfers_.front().peer());
      context_.wait_until([this] {
        return std::any_of(transfers_.begin(), transfers_.end(),
                           [](const shm::Transfer& each) { return each.can_advance(); });
      });
    }
  }

  void advance_transfers() {
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      if (!is_behind_another(i)) transfers_[i].advance();
    }
    std::erase_if(transfers_, [](const shm::Transfer& each) { return each.done(); });
  }

  // True if an earlier, unfinished transfer uses the same channel.
  [[nodiscard]] bool is_behind_another(std::size_t index) const {
    const shm::Transfer& self = transfers_[index];
    return std::any_of(transfers_.begin(), transfers_.begin() + static_cast<std::ptrdiff_t>(index),
                       [&](const shm::Transfer& other) {
                         return !other.done() && other.shares_channel_with(self);
                       });
  }

  shm::Context context_;
  std::vector<std::uint64_t> sent_;      // messages to each rank
  std::vector<std::uint64_t> received_;  // messages from each rank
  std::uint64_t collectives_ = 0;
  std::vector<shm::Transfer> transfers_;  // of the running batch
  OperationQueue queue_;                  // last: its thread uses all of the above
};

}  // namespace

std::shared_ptr<ProcessGroup> make_shm_process_group(GroupConfig config) {
  return std::make_shared<ShmProcessGroup>(std::move(config));
}

}  // namespace ddp
