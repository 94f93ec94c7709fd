// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/scoped_value.h"
#include "ddp/base/step_file.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/hang_contact.h"
#include "ddp/collectives/operation_labels.h"
#include "ddp/collectives/single_writer_ring.h"

namespace ddp {

// What a group did last: its last events, for whoever asks why it stands still. To note an event
// takes a look at the clock and a few stores: no lock, no heap.
//
// Two threads note events, each in a ring of its own, so that they do not slow each other down: the
// caller's what is submitted or joined, and steps; the backend's what is done and, but for what is
// done at once, what starts. Either may be another thread from call to call, but one at a time;
// broken() may come from any thread, and anybody may read at any time. An event is whole or
// missing; it is missing once overwritten.
class FlightRecorder {
 public:
  static constexpr std::size_t kCapacity = 4096;

  enum class What : std::uint8_t {
    kSubmitted,
    kJoined,  // a meeting
    kStarted,
    kDone,
    kBroken,
    kStepBegun,
    kStepEnded
  };

  using Label = OperationLabels::Label;

  struct Event {
    Clock::time_point time = {};
    std::uint64_t step = 0;       // as in Position
    std::uint64_t operation = 0;  // the Work's sequence; 0 for events of steps
    // Only of kSubmitted. Its sequence counts collectives, so that it means the same on all ranks;
    // a send or recv has a count of its own, and its peer as root. Of kJoined, only the sequence.
    CollectiveSignature signature = {};
    Label label = 0;
    What what = What::kSubmitted;
    std::array<std::uint8_t, 3> padding{};
  };

  // Where this rank is.
  struct Position {
    std::uint64_t step = 0;         // 1, 2, ...: begun last; 0 if there was none
    std::uint64_t collectives = 0;  // submitted
    std::uint64_t submitted = 0;    // operation
    std::uint64_t done = 0;         // operation
    bool is_in_step = false;
    bool is_inside = false;  // a thread is in a call of the library that may block
  };

  // The oldest operation that is not done.
  struct Pending {
    Event event;
    Clock::time_point since;  // when it became the oldest
  };

  // Who else hears of what happens.
  struct Listeners {
    StepFile step_file = {};  // begin_step() writes the number of the step there
    // Called once, with the first error that breaks the group and the step that had begun last, on
    // the thread that calls broken().
    std::function<void(const std::exception_ptr& error, std::uint64_t step)> broken = nullptr;
  };

  // With a capacity of 0, for a world of one, nothing is kept at all.
  explicit FlightRecorder(std::size_t capacity = kCapacity) : FlightRecorder(capacity, {}) {}
  FlightRecorder(std::size_t capacity, Listeners listeners);

  // A backend calls these three. Operations of one batch may have one number; they are done
  // together. done() means that all operations up to that number are done.
  void submitted(std::uint64_t operation, const Collective& collective);
  void started(std::uint64_t operation, Clock::time_point now);
  void done(std::uint64_t operation, Clock::time_point now);
  // A meeting (meeting.h) is noted by this instead of submitted(), in a recorder of its own, which
  // counts it as a collective. Returns the meeting's number, for done().
  std::uint64_t joined(Label name);
  // The group was broken by this error, or, without one, is gone: nothing is pending any more.
  void broken(const std::exception_ptr& error = nullptr);

  // For the engine: steps are counted from 1.
  void begin_step(std::uint64_t step);
  void end_step();

  // What its events' labels mean.
  [[nodiscard]] OperationLabels& labels() { return labels_; }
  [[nodiscard]] const OperationLabels& labels() const { return labels_; }
  // What the hang watch and the backend tell each other of the group.
  [[nodiscard]] HangContact& hang() { return hang_; }
  [[nodiscard]] const HangContact& hang() const { return hang_; }

  // Labels what is submitted while it lives (of a batch: what ends while it lives). For the thread
  // that submits.
  class [[nodiscard]] Labelled : ScopedValue<Label> {
   public:
    Labelled(FlightRecorder& recorder, Label label) : ScopedValue(recorder.current_label_, label) {}
  };

  // A thread is inside the library while it lives.
  class [[nodiscard]] Inside {
   public:
    explicit Inside(FlightRecorder& recorder) : recorder_(recorder) {
      recorder_.inside_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Inside() { recorder_.inside_.fetch_sub(1, std::memory_order_relaxed); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    FlightRecorder& recorder_;
  };

  [[nodiscard]] Position position() const;
  [[nodiscard]] std::optional<Pending> oldest_pending() const;
  // The last ones of all, as many as the capacity says; oldest first.
  [[nodiscard]] std::vector<Event> events() const;

 private:
  using Ring = SingleWriterRing<Event>;

  [[nodiscard]] std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  // By cache lines: what both threads read, what the caller writes, what the backend writes, the
  // rest.
  Listeners listeners_;
  std::atomic<std::uint64_t> step_ = 0;
  std::atomic<bool> is_in_step_ = false;
  alignas(64) Ring by_caller_;
  std::atomic<int> inside_ = 0;
  std::atomic<std::uint64_t> collectives_ = 0;
  std::atomic<std::uint64_t> submitted_ = 0;
  Label current_label_ = 0;
  std::uint64_t transfers_ = 0;
  alignas(64) Ring by_backend_;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<Clock::rep> done_time_ = 0;
  alignas(64) Ring end_;  // kBroken, which is noted once
  std::atomic<bool> is_broken_ = false;
  OperationLabels labels_;
  HangContact hang_;
};

// "all_reduce #457 (bucket 4: layer3.*)", or with the operands where there is no label; with the
// peer of a send or recv. "split #2" for a meeting.
[[nodiscard]] std::string describe_operation(const FlightRecorder& recorder,
                                             const FlightRecorder::Event& submitted);

}  // namespace ddp
