// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/operation_timer.h"

namespace ddp {

OperationTimer::OperationTimer(Device device, Stream stream, std::uint64_t capacity)
    : stream_(stream), clock_(device), slots_(capacity) {
  for (Slot& slot : slots_) {
    slot.begin = cu::Event(device, cu::EventTiming::kEnabled);
    slot.end = cu::Event(device, cu::EventTiming::kEnabled);
  }
}

void OperationTimer::begin(std::uint64_t sequence) {
  Slot& slot = slots_[sequence % slots_.size()];
  slot.sequence = 0;  // until end()
  slot.begin.record(stream_);
}

void OperationTimer::end(std::uint64_t sequence) {
  Slot& slot = slots_[sequence % slots_.size()];
  slot.end.record(stream_);
  slot.sequence = sequence;
}

std::optional<Interval> OperationTimer::interval(std::uint64_t sequence) {
  const Slot& slot = slots_[sequence % slots_.size()];
  if (sequence == 0 || slot.sequence != sequence || !slot.end.done()) return std::nullopt;
  return Interval{clock_.time_of(slot.begin), clock_.time_of(slot.end)};
}

}  // namespace ddp
