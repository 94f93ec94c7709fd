// SPDX-License-Identifier: MIT
#include "ddp/collectives/flight_recorder.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace ddp {
namespace {

using Event = FlightRecorder::Event;
using Words = std::array<std::uint64_t, sizeof(Event) / sizeof(std::uint64_t)>;

// Stamps of a place that was never written, and of one that is being written.
constexpr std::uint64_t kNever = 0;
constexpr std::uint64_t kBusy = ~std::uint64_t{0};

static_assert(sizeof(Words) == sizeof(Event) && std::has_unique_object_representations_v<Event>);

// For a counter that one thread at a time raises.
void raise(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

void FlightRecorder::submitted(std::uint64_t operation, const Collective& collective) {
  const bool transfers = is_transfer(collective.kind);
  transfers ? void(++transfers_) : raise(collectives_);
  CollectiveSignature signature =
      signature_of(collective, transfers ? transfers_ : collectives_.load());
  if (transfers) signature.root = collective.peer;
  note({.time = Clock::now(),
        .operation = operation,
        .signature = signature,
        .label = current_label_,
        .what = What::kSubmitted});
  submitted_.store(operation, std::memory_order_release);
}

std::uint64_t FlightRecorder::joined(Label name) {
  raise(collectives_);
  const std::uint64_t number = collectives_.load(std::memory_order_relaxed);
  note({.time = Clock::now(),
        .operation = number,
        .signature = {.sequence = number},
        .label = name,
        .what = What::kJoined});
  submitted_.store(number, std::memory_order_release);
  return number;
}

void FlightRecorder::started(std::uint64_t operation, Clock::time_point now) {
  note({.time = now, .operation = operation, .what = What::kStarted});
}

void FlightRecorder::done(std::uint64_t operation, Clock::time_point now) {
  note({.time = now, .operation = operation, .what = What::kDone});
  done_time_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  done_.store(operation, std::memory_order_release);
}

void FlightRecorder::broken() {
  if (!is_broken_.exchange(true)) note({.time = Clock::now(), .what = What::kBroken});
}

void FlightRecorder::begin_step(std::uint64_t step) {
  if (slots_.empty()) return;
  step_.store(step, std::memory_order_relaxed);
  is_in_step_.store(true, std::memory_order_relaxed);
  note({.time = Clock::now(), .what = What::kStepBegun});
}

void FlightRecorder::end_step() {
  if (slots_.empty()) return;
  is_in_step_.store(false, std::memory_order_relaxed);
  note({.time = Clock::now(), .what = What::kStepEnded});
}

// A sequence lock in each place, of atomics throughout: whoever sees a new word sees that the stamp
// was taken away before it.
void FlightRecorder::note(Event event) {
  if (slots_.empty()) return;
  event.step = step_.load(std::memory_order_relaxed);
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = slots_[number % slots_.size()];
  if (slot.stamp.exchange(kBusy, std::memory_order_acquire) == kBusy) return;
  const Words words = std::bit_cast<Words>(event);
  for (std::size_t i = 0; i < kWords; ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.stamp.store(number, std::memory_order_release);
}

std::vector<Event> FlightRecorder::events() const {
  std::vector<std::pair<std::uint64_t, Event>> numbered;
  for (const Slot& slot : slots_) {
    const std::uint64_t stamp = slot.stamp.load(std::memory_order_acquire);
    Words words;
    for (std::size_t i = 0; i < kWords; ++i) {
      words[i] = slot.words[i].load(std::memory_order_acquire);
    }
    const bool is_whole = stamp == slot.stamp.load(std::memory_order_relaxed);
    if (!is_whole || stamp == kNever || stamp == kBusy) continue;
    numbered.emplace_back(stamp, std::bit_cast<Event>(words));
  }
  std::sort(numbered.begin(), numbered.end(),
            [](const auto& left, const auto& right) { return left.first < right.first; });
  std::vector<Event> events;
  for (const auto& [number, event] : numbered) events.push_back(event);
  return events;
}

FlightRecorder::Position FlightRecorder::position() const {
  return {.step = step_.load(std::memory_order_relaxed),
          .collectives = collectives_.load(std::memory_order_relaxed),
          .submitted = submitted_.load(std::memory_order_acquire),
          .done = done_.load(std::memory_order_acquire),
          .is_in_step = is_in_step_.load(std::memory_order_relaxed),
          .is_inside = inside_.load(std::memory_order_relaxed) > 0};
}

std::optional<FlightRecorder::Pending> FlightRecorder::oldest_pending() const {
  const Position now = position();
  if (is_broken_.load() || now.submitted <= now.done) return std::nullopt;
  const Clock::time_point last_done{Clock::duration(done_time_.load(std::memory_order_relaxed))};
  const std::vector<Event> all = events();
  const auto oldest = std::find_if(all.begin(), all.end(), [&](const Event& event) {
    const bool begins = event.what == What::kSubmitted || event.what == What::kJoined;
    return begins && event.operation > now.done;
  });
  if (oldest == all.end()) return std::nullopt;
  return Pending{*oldest, std::max(oldest->time, last_done)};
}

// A line break would not survive the store; see RankProgress.
FlightRecorder::Label FlightRecorder::add_label(const std::string& text) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const std::lock_guard lock(mutex_);
  const auto known = std::find(labels_.begin(), labels_.end(), line);
  const auto index = known - labels_.begin();
  if (known == labels_.end()) labels_.push_back(std::move(line));
  return static_cast<Label>(index + 1);
}

std::string FlightRecorder::label(Label label) const {
  const std::lock_guard lock(mutex_);
  return label == 0 ? "" : labels_.at(label - 1);
}

void FlightRecorder::set_diagnosis(std::string text) {
  const std::lock_guard lock(mutex_);
  diagnosis_ = std::move(text);
}

std::string FlightRecorder::diagnosis() const {
  const std::lock_guard lock(mutex_);
  return diagnosis_;
}

std::string describe_operation(const FlightRecorder& recorder, const Event& submitted) {
  const CollectiveSignature& signature = submitted.signature;
  const std::string label = recorder.label(submitted.label);
  const std::string number = " #" + std::to_string(signature.sequence);
  if (submitted.what == FlightRecorder::What::kJoined) return label + number;
  const std::string operands = label.empty() ? describe_operands(signature) : label;
  std::string text = std::string(to_string(signature.kind)) + number;
  if (!operands.empty()) text += " (" + operands + ")";
  if (signature.kind == CollectiveKind::kSend) text += " to rank ";
  if (signature.kind == CollectiveKind::kRecv) text += " from rank ";
  return is_transfer(signature.kind) ? text + std::to_string(signature.root) : text;
}

}  // namespace ddp
