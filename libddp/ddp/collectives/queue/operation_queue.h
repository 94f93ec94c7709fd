// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/failure/break_report.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/queue/wake_policy.h"

namespace ddp {

// The asynchronous half of a CPU backend: runs submitted operations in order, on its own thread or,
// if the backend can post operations, on a thread that waits. Operations are numbered 1, 2, ...;
// the ring that holds them is allocated once, so submitting does not allocate. The first exception
// breaks the queue: every wait for an unfinished operation, and every later call, throws it.
//
// Thread safety: submit from one thread at a time; waits and fail from any thread.
class OperationQueue {
 public:
  static constexpr std::uint64_t kCapacity = 1024;

  // Runs operations that were submitted together. Returns when they ran; nothing means during the
  // whole call.
  using Execute = std::function<std::optional<Interval>(std::span<const Collective>)>;

  // Posting an operation means making it known to the other ranks when it is submitted, before it
  // runs. What this rank must still do after that:
  enum class Posting {
    kNotPosted,  // It was not posted: it has to run first, and so have all that follow it.
    kNeeded,     // The other ranks cannot finish it before this rank runs its part.
    kUseful,     // The other ranks can finish it alone, but are faster if this rank helps.
    kLittle,     // This rank only has to take its result, which takes next to no time.
  };
  // What a backend that can post operations provides.
  struct Poster {
    // Posts an operation. Operations are passed in the order of submission; one that shares an
    // operand with an unfinished operation is not passed at all. If it throws, nothing was posted.
    std::function<Posting(const Collective&)> post = nullptr;
    // Runs the next operation, which was posted as kLittle, if that takes only a moment; otherwise
    // does nothing and returns false. It is called under the queue's lock and must not throw.
    // Required if anything is posted as kLittle.
    std::function<bool(const Collective&)> finish = nullptr;
    double cpus_per_rank = 2;  // see WakePolicy
  };

  // `name` is the name of the thread, and `origin` begins the queue's own error messages. Events
  // are recorded in `recorder`. The error that breaks the queue is told to `report`; until that is
  // over, calls and waits go on as before.
  OperationQueue(const std::string& name, std::string origin,
                 std::shared_ptr<FlightRecorder> recorder, Execute execute, Poster poster,
                 std::shared_ptr<BreakReport> report = std::make_shared<BreakReport>());
  OperationQueue(const std::string& name, std::string origin,
                 std::shared_ptr<FlightRecorder> recorder, Execute execute,
                 std::shared_ptr<BreakReport> report = std::make_shared<BreakReport>());
  ~OperationQueue();

  // Gives submitted operations kLeaveTimeout to end, unless the queue is broken, then ends the
  // thread after the running operation; `interrupt` is called to make that operation return or
  // throw soon.
  void stop(const std::function<void()>& interrupt);

  // Submits operations that start together, at most kCapacity; returns the number of the last one.
  std::uint64_t submit(std::span<const Collective> operations);

  // Returns when the operation is done. With a Poster and without a timeout (Timeout::max()), the
  // calling thread runs the operation itself, unless another thread does. Throws TimeoutError if
  // the operation is not done in time. An error is thrown only when nothing runs any more, so that
  // operands may be freed; but if a running operation does not end within kErrorGrace, it may still
  // touch its operands.
  void wait(std::uint64_t sequence, Timeout timeout);

  // When an operation ran; for one of a batch, when the batch ran. Returns nothing if it is not
  // finished, or not among the last kCapacity. An unfinished operation is from now on run by the
  // thread.
  [[nodiscard]] std::optional<Interval> interval(std::uint64_t sequence);

  // True once nothing runs and nothing is queued, or the queue is broken and nothing runs.
  [[nodiscard]] bool wait_idle(Timeout timeout);

  // True once no operation that was submitted so far touches `memory` any more.
  [[nodiscard]] bool wait_released(const Buffer& memory, Timeout timeout);

  // How long the operations of a queue that is being stopped may take to end.
  static constexpr Timeout kLeaveTimeout{1000};
  // How long a wait that is about to throw waits for a running operation to end.
  static constexpr Timeout kErrorGrace{1000};

  [[nodiscard]] bool is_broken();
  // True once the queue is broken and nothing runs any more.
  [[nodiscard]] bool has_ended();

  // Breaks the queue from outside: waits throw this error. A running operation goes on.
  void fail(std::exception_ptr error);

 private:
  struct Entry {
    Collective collective;
    Posting posting = Posting::kNotPosted;
    Clock::time_point submitted;  // if posting is kUseful
    std::uint64_t batch_end = 0;  // sequence of the batch's last operation
    Interval ran;                 // once it is completed
  };

  using Lock = std::unique_lock<std::mutex>;

  void run();
  void run_pending();
  void wait_for_room(std::size_t operations, Lock& lock);
  [[nodiscard]] bool has_room_for(std::size_t operations) const;
  [[nodiscard]] bool has_much_room() const { return has_room_for(kCapacity / 2); }
  [[nodiscard]] bool may_run() const { return !executing_ && !stopping_ && !error_; }
  [[nodiscard]] bool finish_next();
  void run_batch(Lock& lock);
  template <class Settled>
  void help_until(const Settled& settled, Lock& lock);
  void take_batch();
  void finish_batch(const Interval& ran, Clock::time_point now, std::exception_ptr error);
  [[nodiscard]] std::exception_ptr report(std::exception_ptr error);
  void complete(std::size_t operations, const Interval& ran, Clock::time_point now);
  void tell_of_completion();
  void append(std::span<const Collective> operations);
  [[nodiscard]] bool needs_thread();
  [[nodiscard]] Posting post_last();
  [[nodiscard]] Posting try_to_post(const Collective& collective);
  void note_wait(std::uint64_t sequence);
  [[nodiscard]] bool depends_on_pending(const Collective& collective);
  void assign_to_thread(std::uint64_t sequence);
  [[nodiscard]] Entry& entry(std::uint64_t sequence) { return ring_[sequence % kCapacity]; }

  std::string origin_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<BreakReport> report_;
  Execute execute_;
  Poster poster_;  // without functions: cannot post
  std::vector<Entry> ring_ = std::vector<Entry>(kCapacity);
  std::vector<Collective> batch_;  // the operations that run now
  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable work_done_;
  std::condition_variable room_made_;
  std::uint64_t submitted_ = 0;
  std::uint64_t posted_ = 0;    // all up to this one were posted
  std::uint64_t assigned_ = 0;  // up to this one the thread runs operations for which nobody waits
  std::uint64_t completed_ = 0;
  WakePolicy wake_policy_;  // for operations that are kUseful
  bool executing_ = false;
  std::atomic<bool> leaving_ = false;  // stop() was called
  bool stopping_ = false;
  std::exception_ptr first_error_;  // that is being reported, and becomes error_ then
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace ddp
