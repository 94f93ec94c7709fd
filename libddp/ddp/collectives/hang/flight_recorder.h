// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/hang/hang_contact.h"
#include "ddp/collectives/hang/operation_labels.h"
#include "ddp/collectives/hang/single_writer_ring.h"

namespace ddp {

// The last events of a group, for finding out why it hangs. Recording an event takes a clock
// reading and a few stores: no lock, no heap.
//
// Two threads record events, each in its own ring, so that they do not slow each other down. The
// caller's thread records what is submitted or joined, steps, and buckets. The backend's thread
// records what is done and, unless it is done at once, what starts. Each may be a different thread
// from call to call, but only one at a time; broken() may come from any thread, and any thread may
// read at any time. A reader gets an event whole or not at all; overwritten events are missing.
class FlightRecorder {
 public:
  static constexpr std::size_t kCapacity = 4096;

  enum class What : std::uint8_t {
    kSubmitted,
    kJoined,  // the caller entered a Meeting
    kStarted,
    kDone,
    kBroken,
    kStepBegun,
    kStepEnded,
    kStepLeft,  // by an exception, or because the engine was destroyed
    kReady      // a bucket is full; it is submitted when its turn comes
  };

  using Label = OperationLabels::Label;

  struct Event {
    Clock::time_point time = {};
    std::uint64_t step = 0;       // counts as Position::step does
    std::uint64_t operation = 0;  // the Work's sequence; 0 for events of steps and buckets
    // Only for kSubmitted. Its sequence counts collectives, so that it means the same on all ranks;
    // a send or recv has its own count, and its peer as root. For kJoined only the sequence is set.
    CollectiveSignature signature = {};
    Label label = 0;
    What what = What::kSubmitted;
    std::array<std::uint8_t, 3> padding{};
  };

  // Where this rank is now.
  struct Position {
    std::uint64_t step = 0;         // number of the last begun: 1, 2, ...; 0 if none
    std::uint64_t begun_steps = 0;  // how many this process has begun; see begin_step()
    std::uint64_t collectives = 0;  // collectives submitted so far
    std::uint64_t submitted = 0;    // number of the last operation submitted
    std::uint64_t done = 0;         // number of the last operation done
    bool is_in_step = false;
    bool has_left_step = false;  // the last step was left in the middle
    bool is_inside = false;      // a thread is in a library call that may block
  };

  // The oldest operation that is not done, with all of its batch.
  struct Pending {
    std::vector<Event> operations;  // never empty
    Clock::time_point since;        // when they became the oldest
  };

  // With a capacity of 0, for a world of one, nothing is recorded.
  explicit FlightRecorder(
      std::size_t capacity = kCapacity,
      std::shared_ptr<OperationLabels> labels = std::make_shared<OperationLabels>());

  // The backend calls these three. Operations of one batch share a number: they start and are done
  // together. done() means that all operations up to that number are done.
  void submitted(std::uint64_t operation, const Collective& collective);
  void started(std::uint64_t operation, Clock::time_point now);
  void done(std::uint64_t operation, Clock::time_point now);
  // Records a meeting (meeting.h) in place of submitted(), in a recorder of its own that counts
  // meetings like collectives. Returns the meeting's number, for done().
  std::uint64_t joined(Label name);
  // The group was broken, or is destroyed: nothing is pending any more.
  void broken();

  // For the engine: steps are numbered from 1, or in a training that was resumed from where it was.
  // The passes of a step have the same number. Passes of several engines may overlap.
  void begin_step(std::uint64_t step);
  void end_step();
  // In place of end_step(), if the pass will never end.
  void leave_step();
  void bucket_ready(Label bucket);

  // The texts of the events' labels.
  [[nodiscard]] OperationLabels& labels() { return *labels_; }
  [[nodiscard]] const OperationLabels& labels() const { return *labels_; }
  // Shared between the hang watch and the group's backend.
  [[nodiscard]] HangContact& hang() { return hang_; }
  [[nodiscard]] const HangContact& hang() const { return hang_; }

  // Marks a thread as inside the library while it lives.
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
  // The last events of all rings, at most the capacity, the oldest first.
  [[nodiscard]] std::vector<Event> events() const;

 private:
  using Ring = SingleWriterRing<Event>;

  void close_pass(What how);
  [[nodiscard]] std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  // Grouped by cache lines: read by both threads, written by the caller, written by the backend,
  // others.
  std::atomic<std::uint64_t> step_ = 0;
  std::atomic<std::uint64_t> begun_steps_ = 0;
  std::atomic<std::uint64_t> open_passes_ = 0;  // several engines may share a group
  std::atomic<std::uint64_t> left_step_ = 0;    // the last that was left in the middle
  alignas(64) Ring by_caller_;
  std::atomic<int> inside_ = 0;
  std::atomic<std::uint64_t> collectives_ = 0;
  std::atomic<std::uint64_t> submitted_ = 0;
  std::uint64_t transfers_ = 0;
  alignas(64) Ring by_backend_;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<Clock::rep> done_time_ = 0;
  alignas(64) Ring end_;  // holds kBroken, which is recorded once
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<OperationLabels> labels_;
  HangContact hang_;
};

// "all_reduce #457 (bucket 4: layer3.*)", with the operands if there is no label, and with the peer
// of a send or recv. "split #2" for a meeting.
[[nodiscard]] std::string describe_operation(const FlightRecorder& recorder,
                                             const FlightRecorder::Event& submitted);

// What the oldest operation that is not done is for: " (bucket 4: layer3.*)", to be put behind it.
// Empty without a label.
[[nodiscard]] std::string purpose_of_pending(const FlightRecorder& recorder);

}  // namespace ddp
