// SPDX-License-Identifier: MIT
#include "support/simulated_device_group.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/nccl/event_ring.h"
#include "ddp/collectives/nccl/operation_timer.h"
#include "ddp/store/hash_store.h"
#include "support/simulated_collective.h"

namespace ddp::bench {
namespace {

class SimulatedDeviceGroup final : public ProcessGroup {
 public:
  SimulatedDeviceGroup(GroupConfig group_config, const SimulatedLink& link, unsigned blocks)
      : ProcessGroup(std::move(group_config)),
        link_(link),
        blocks_(blocks),
        side_(device(), cu::StreamPriority::kGreatest),
        handover_(device()),
        addend_(cu::allocate_device(kSummedBytes, device())),
        operations_(device()) {}

  std::string_view backend() const override { return "simulated"; }

  void check_on(std::span<const int>, const std::function<bool()>&) override {}

  Allocation do_allocate(std::size_t size_bytes) override {
    return cu::allocate_device(size_bytes, device());
  }

 protected:
  void do_abort(std::string_view reason) override {
    aborted_ = "[simulated] aborted: " + std::string(reason);
  }
  std::uint64_t submit(std::span<const Collective> operations) override {
    if (!aborted_.empty()) throw PeerError(aborted_);
    for (const Collective& each : operations) run(each);
    return operations_.next() - 1;
  }
  void wait(std::uint64_t sequence, Stream consumer) override {
    operations_.make_wait(sequence, consumer);
  }
  void wait_host(std::uint64_t sequence, Timeout timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    while (!operations_.done(sequence)) {
      if (deadline.passed()) throw TimeoutError("[simulated] a collective does not end");
      std::this_thread::yield();
    }
  }
  void time_last(std::uint64_t operations) override {
    if (timer_ && timer_->capacity() >= operations) return;
    timer_.emplace(device(), side_.view(), operations);
  }
  std::optional<Interval> interval(std::uint64_t sequence) override {
    return timer_ ? timer_->interval(sequence) : std::nullopt;
  }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return std::make_shared<SimulatedDeviceGroup>(std::move(child), link_, blocks_);
  }

 private:
  void run(const Collective& collective) {
    refuse_unknown(collective.kind);
    const std::uint64_t sequence = operations_.next();
    recorder().submitted(sequence, collective);
    if (sequence > EventRing::kCapacity) wait_host(sequence - EventRing::kCapacity, timeout());
    operations_.begin(signature_of(collective, sequence), collective.context.timeout);
    handover_.record(collective.producer);
    handover_.make_wait(side_.view());
    if (timer_) timer_->begin(sequence);
    if (collective.kind == CollectiveKind::kAllReduce) all_reduce(collective);
    if (collective.kind == CollectiveKind::kAllGather) all_gather(collective);
    if (timer_) timer_->end(sequence);
    operations_.record(side_.view());
  }

  void all_reduce(const Collective& operation) const {
    const Buffer& operand = operation.output;
    if (operand.size_bytes() <= kSummedBytes) reduce_with_equals(operand, operation.op);
    launch_simulated_collective(operand, link_.time_of(operand.size_bytes()), blocks_,
                                side_.view());
  }

  // Computes the reduction as if every other rank had the same operand.
  void reduce_with_equals(const Buffer& operand, ReduceOp op) const {
    if (op == ReduceOp::kAverage) return;
    Buffer addend = operand;
    addend.data = addend_.data();
    cu::copy(operand, addend, side_.view());
    for (int rank = 1; rank < world_size(); ++rank) cu::reduce(addend, operand, op, side_.view());
  }

  void all_gather(const Collective& operation) const {
    const std::size_t count = operation.input.count;
    for (int rank = 0; rank < world_size(); ++rank) {
      const std::size_t offset = static_cast<std::size_t>(rank) * count;
      cu::copy(operation.input, operation.output.slice(offset, count), side_.view());
    }
  }

  SimulatedLink link_;
  unsigned blocks_;
  cu::OwnedStream side_;
  cu::Event handover_;
  Allocation addend_;  // used on the side stream
  EventRing operations_;
  std::string aborted_;
  std::optional<OperationTimer> timer_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_simulated_device_group(const SimulatedLink& link,
                                                          unsigned blocks, int world_size,
                                                          Device device) {
  GroupConfig config;
  config.store = std::make_shared<HashStore>();
  config.world_size = world_size;
  config.device = device;
  config.name = "simulated";
  return std::make_shared<SimulatedDeviceGroup>(std::move(config), link, blocks);
}

}  // namespace ddp::bench
