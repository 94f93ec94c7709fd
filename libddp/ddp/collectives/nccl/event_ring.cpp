// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/event_ring.h"

#include <algorithm>

#include "ddp/base/error.h"

namespace ddp {

// Ranges that touch become one, as those of neighbouring tensors do; so does the last one with each
// that finds no place.
void MemoryRanges::add(const MemoryRange& range) {
  for (MemoryRange& each : ranges_) {
    const bool is_free = each.end == 0;
    const bool touches = range.begin <= each.end && each.begin <= range.end;
    if (!is_free && !touches && &each != &ranges_.back()) continue;
    each.begin = is_free ? range.begin : std::min(each.begin, range.begin);
    each.end = std::max(each.end, range.end);
    return;
  }
}

bool MemoryRanges::overlap(const MemoryRange& memory) const {
  return std::ranges::any_of(ranges_,
                             [&](const MemoryRange& each) { return each.overlaps(memory); });
}

EventRing::EventRing(Device device) {
  for (Events& each : events_) each = {cu::Event(device), cu::Event(device)};
}

void EventRing::begin(const CollectiveSignature& signature, Timeout timeout,
                      const MemoryRanges& operands) {
  announced_.push({signature, timeout.count(), operands});
  begun_.fetch_add(1);
}

// One event serves all producers: a wait refers to the record before it, whatever is recorded
// later.
void EventRing::order_behind(Stream producer, Stream stream) {
  cu::Event& reached = events(begun_.load()).reached;
  reached.record(producer);
  reached.make_wait(stream);
}

void EventRing::record(Stream stream) {
  events(begun_.load()).done.record(stream);
  recorded_.store(begun_.load());
}

void EventRing::record_some(Stream stream) noexcept {
  try {
    record(stream);
  } catch (const CudaError&) {
    // Then the device does not work any more either.
  }
}

bool EventRing::is_recorded(std::uint64_t sequence) const { return sequence <= recorded_.load(); }

bool EventRing::done(std::uint64_t sequence) {
  std::uint64_t completed = completed_.load();
  if (sequence <= completed) return true;
  if (!is_recorded(sequence) || !events(sequence).done.done()) return false;
  while (completed < sequence && !completed_.compare_exchange_weak(completed, sequence)) {
  }
  return true;
}

bool EventRing::is_reached(std::uint64_t sequence) {
  return is_recorded(sequence) && events(sequence).reached.done();
}

void EventRing::make_wait(std::uint64_t sequence, Stream consumer) {
  if (sequence > completed_.load()) events(sequence).done.make_wait(consumer);
}

bool EventRing::uses(const MemoryRange& memory) {
  const std::uint64_t last = recorded_.load();
  for (std::uint64_t sequence = completed_.load() + 1; sequence <= last; ++sequence) {
    const MemoryRanges operands = announced_.value(sequence).value_or(Announced()).operands;
    if (operands.overlap(memory) && !done(sequence)) return true;
  }
  return false;
}

std::uint64_t EventRing::oldest_unfinished() {
  const std::uint64_t last = begun_.load();
  for (std::uint64_t sequence = completed_.load() + 1; sequence <= last; ++sequence) {
    if (!done(sequence)) return sequence;
  }
  return 0;
}

CollectiveSignature EventRing::signature(std::uint64_t sequence) const {
  return announced_.value(sequence).value_or(Announced()).signature;
}

Timeout EventRing::timeout(std::uint64_t sequence) const {
  return Timeout(announced_.value(sequence).value_or(Announced()).timeout);
}

}  // namespace ddp
