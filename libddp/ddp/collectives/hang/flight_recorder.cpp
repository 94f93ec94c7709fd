// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/flight_recorder.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace ddp {
namespace {

using Event = FlightRecorder::Event;

// Increments a counter that only one thread at a time writes.
void raise(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

FlightRecorder::FlightRecorder(std::size_t capacity, std::shared_ptr<OperationLabels> labels)
    : by_caller_(capacity),
      by_backend_(capacity),
      end_(capacity > 0 ? 1 : 0),
      labels_(std::move(labels)) {}

void FlightRecorder::submitted(std::uint64_t operation, const Collective& collective) {
  const bool transfers = is_transfer(collective.kind);
  if (transfers) {
    ++transfers_;
  } else {
    raise(collectives_);
  }
  CollectiveSignature signature =
      signature_of(collective, transfers ? transfers_ : collectives_.load());
  if (transfers) signature.root = static_cast<std::uint16_t>(collective.peer);
  by_caller_.push({.time = Clock::now(),
                   .step = step(),
                   .operation = operation,
                   .signature = signature,
                   .label = collective.context.label,
                   .what = What::kSubmitted});
  submitted_.store(operation, std::memory_order_release);
}

std::uint64_t FlightRecorder::joined(Label name) {
  raise(collectives_);
  const std::uint64_t number = collectives_.load(std::memory_order_relaxed);
  by_caller_.push({.time = Clock::now(),
                   .step = step(),
                   .operation = number,
                   .signature = {.sequence = number},
                   .label = name,
                   .what = What::kJoined});
  submitted_.store(number, std::memory_order_release);
  return number;
}

void FlightRecorder::started(std::uint64_t operation, Clock::time_point now) {
  by_backend_.push({.time = now, .step = step(), .operation = operation, .what = What::kStarted});
}

void FlightRecorder::done(std::uint64_t operation, Clock::time_point now) {
  by_backend_.push({.time = now, .step = step(), .operation = operation, .what = What::kDone});
  done_time_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  done_.store(operation, std::memory_order_release);
}

void FlightRecorder::broken() {
  if (is_broken_.exchange(true)) return;
  end_.push({.time = Clock::now(), .step = step(), .what = What::kBroken});
}

[[gnu::hot]] void FlightRecorder::begin_step(std::uint64_t step) {
  if (by_caller_.capacity() == 0) return;
  if (step != this->step()) raise(begun_steps_);
  step_.store(step, std::memory_order_relaxed);
  left_step_.store(0, std::memory_order_relaxed);
  raise(open_passes_);
  by_caller_.push({.time = Clock::now(), .step = step, .what = What::kStepBegun});
}

void FlightRecorder::end_step() { close_pass(What::kStepEnded); }

void FlightRecorder::leave_step() {
  left_step_.store(step(), std::memory_order_relaxed);
  close_pass(What::kStepLeft);
}

void FlightRecorder::close_pass(What how) {
  if (by_caller_.capacity() == 0) return;
  const std::uint64_t open = open_passes_.load(std::memory_order_relaxed);
  if (open > 0) open_passes_.store(open - 1, std::memory_order_relaxed);
  by_caller_.push({.time = Clock::now(), .step = step(), .what = how});
}

void FlightRecorder::bucket_ready(Label bucket) {
  by_caller_.push({.time = Clock::now(), .step = step(), .label = bucket, .what = What::kReady});
}

std::vector<Event> FlightRecorder::events() const {
  std::vector<Event> all = by_caller_.values();
  for (const Ring* ring : {&by_backend_, &end_}) {
    const std::vector<Event> more = ring->values();
    all.insert(all.end(), more.begin(), more.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Event& left, const Event& right) { return left.time < right.time; });
  const std::size_t kept = std::min(all.size(), by_caller_.capacity());
  all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kept));
  return all;
}

FlightRecorder::Position FlightRecorder::position() const {
  const std::uint64_t step = this->step();
  return {.step = step,
          .begun_steps = begun_steps_.load(std::memory_order_relaxed),
          .collectives = collectives_.load(std::memory_order_relaxed),
          .submitted = submitted_.load(std::memory_order_acquire),
          .done = done_.load(std::memory_order_acquire),
          .is_in_step = open_passes_.load(std::memory_order_relaxed) > 0,
          .has_left_step = step > 0 && left_step_.load(std::memory_order_relaxed) == step,
          .is_inside = inside_.load(std::memory_order_relaxed) > 0};
}

std::optional<FlightRecorder::Pending> FlightRecorder::oldest_pending() const {
  const Position now = position();
  if (is_broken_.load() || now.submitted <= now.done) return std::nullopt;
  const Clock::time_point last_done{Clock::duration(done_time_.load(std::memory_order_relaxed))};
  const std::vector<Event> events = by_caller_.values();
  const auto oldest = std::find_if(events.begin(), events.end(), [&](const Event& event) {
    const bool begins = event.what == What::kSubmitted || event.what == What::kJoined;
    return begins && event.operation > now.done;
  });
  if (oldest == events.end()) return std::nullopt;
  Pending pending{.operations = {}, .since = std::max(oldest->time, last_done)};
  std::copy_if(oldest, events.end(), std::back_inserter(pending.operations),
               [&](const Event& event) { return event.operation == oldest->operation; });
  return pending;
}

std::string describe_operation(const FlightRecorder& recorder, const Event& submitted) {
  const CollectiveSignature& signature = submitted.signature;
  const std::string label = recorder.labels().text(submitted.label);
  const std::string number = " #" + std::to_string(signature.sequence);
  if (submitted.what == FlightRecorder::What::kJoined) return label + number;
  const std::string operands = label.empty() ? describe_operands(signature) : label;
  std::string text = std::string(to_string(signature.kind)) + number;
  if (!operands.empty()) text += " (" + operands + ")";
  if (signature.kind == CollectiveKind::kSend) text += " to rank ";
  if (signature.kind == CollectiveKind::kRecv) text += " from rank ";
  return is_transfer(signature.kind) ? text + std::to_string(signature.root) : text;
}

std::string purpose_of_pending(const FlightRecorder& recorder) {
  const auto pending = recorder.oldest_pending();
  const std::string label =
      pending ? recorder.labels().text(pending->operations.front().label) : "";
  return label.empty() ? "" : " (" + label + ")";
}

}  // namespace ddp
