// SPDX-License-Identifier: MIT
#include "support/simulated_group.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/queue/queued_process_group.h"
#include "ddp/store/hash_store.h"
#include "support/precise_sleep.h"

namespace ddp::bench {
namespace {

class SimulatedGroup final : public QueuedProcessGroup {
 public:
  SimulatedGroup(GroupConfig group_config, const SimulatedLink& link)
      : QueuedProcessGroup(std::move(group_config)),
        link_(link),
        addend_(allocate_host(kSummedBytes)),
        queue_("ddp-simulated", "[simulated]", shared_recorder(),
               [this](std::span<const Collective> batch) { return execute(batch); }) {}

  std::string_view backend() const override { return "simulated"; }

  void check_on(std::span<const int>, const std::function<bool()>&) override {}

  Allocation do_allocate(std::size_t size_bytes) override {
    return guard(allocate_host(size_bytes));
  }

 protected:
  OperationQueue& queue() override { return queue_; }
  void do_abort(std::string_view reason) override {
    queue_.fail(std::make_exception_ptr(PeerError("[simulated] aborted: " + std::string(reason))));
  }
  std::uint64_t submit(std::span<const Collective> operations) override {
    const Clock::time_point now = Clock::now();
    for (const Collective& each : operations) {
      refuse_unknown(each.kind);
      submitted_at_[++submitted_ % submitted_at_.size()] = now;
    }
    return QueuedProcessGroup::submit(operations);
  }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return std::make_shared<SimulatedGroup>(std::move(child), link_);
  }

 private:
  std::optional<Interval> execute(std::span<const Collective> batch) {
    std::optional<Interval> ran;
    for (const Collective& operation : batch) {
      const Clock::time_point submitted = submitted_at_[++executed_ % submitted_at_.size()];
      if (operation.kind == CollectiveKind::kAllReduce) ran = all_reduce(operation, submitted);
      if (operation.kind == CollectiveKind::kAllGather) all_gather(operation);
    }
    return ran;
  }

  // The link begins as soon as it has the operation and is free, however late this thread wakes.
  Interval all_reduce(const Collective& operation, Clock::time_point submitted) {
    const std::size_t size_bytes = operation.output.size_bytes();
    if (size_bytes <= kSummedBytes) reduce_with_equals(operation);
    const Clock::time_point begin = std::max(submitted, link_free_at_);
    link_free_at_ = begin + link_.time_of(size_bytes);
    sleep_precisely_until(link_free_at_);
    return {begin, link_free_at_};
  }

  // Computes the reduction as if every other rank had the same operand.
  void reduce_with_equals(const Collective& operation) const {
    Buffer addend = operation.output;
    addend.data = addend_.data();
    cpu::copy(operation.output, addend);
    for (int rank = 1; rank < world_size(); ++rank) {
      cpu::reduce(addend, operation.output, operation.op);
    }
    if (operation.op == ReduceOp::kAverage) {
      cpu::scale(operation.output, average_factor(operation, std::size_t(world_size())));
    }
  }

  void all_gather(const Collective& operation) const {
    for (int rank = 0; rank < world_size(); ++rank) {
      const std::size_t count = operation.input.count;
      const std::size_t offset = static_cast<std::size_t>(rank) * count;
      cpu::copy(operation.input, operation.output.slice(offset, count));
    }
  }

  SimulatedLink link_;
  // When each unfinished operation was submitted; the queue's lock hands them to its thread.
  std::array<Clock::time_point, 2 * OperationQueue::kCapacity> submitted_at_{};
  std::uint64_t submitted_ = 0;
  // Used by the queue's thread:
  std::uint64_t executed_ = 0;
  Clock::time_point link_free_at_{};
  Allocation addend_;
  OperationQueue queue_;  // last: its thread uses all of the above
};

}  // namespace

void refuse_unknown(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBarrier:
      return;
    default:
      throw std::invalid_argument("[simulated] there is no " + std::string(to_string(kind)));
  }
}

Clock::duration SimulatedLink::time_of(std::size_t size_bytes) const {
  const std::chrono::duration<double> moving(static_cast<double>(size_bytes) / bytes_per_second);
  return latency + std::chrono::duration_cast<Clock::duration>(moving);
}

std::shared_ptr<ProcessGroup> make_simulated_group(const SimulatedLink& link, int world_size) {
  GroupConfig config;
  config.store = std::make_shared<HashStore>();
  config.world_size = world_size;
  config.name = "simulated";
  return std::make_shared<SimulatedGroup>(std::move(config), link);
}

}  // namespace ddp::bench
