// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/operation_queue.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/overlap.h"
#include "ddp/base/threads/background_thread.h"

namespace ddp {
namespace {

bool has_operand_in(const Buffer& memory, const Collective& collective) {
  return overlap(memory, collective.input) || overlap(memory, collective.output);
}

bool uses(const Buffer& memory, const Collective& collective) {
  const Buffer divisor{const_cast<double*>(collective.context.divisor), 1, DType::kFloat64,
                       kCpuDevice};
  return has_operand_in(memory, collective) || overlap(memory, divisor);
}

bool overlap(const Collective& a, const Collective& b) {
  return has_operand_in(a.input, b) || has_operand_in(a.output, b);
}

}  // namespace

OperationQueue::OperationQueue(const std::string& name, std::string origin,
                               std::shared_ptr<FlightRecorder> recorder, Execute execute,
                               Poster poster, std::shared_ptr<BreakReport> report)
    : origin_(std::move(origin)),
      recorder_(std::move(recorder)),
      report_(std::move(report)),
      execute_(std::move(execute)),
      poster_(std::move(poster)),
      wake_policy_(poster_.cpus_per_rank) {
  batch_.reserve(kCapacity);
  if (poster_.post) recorder_->hang().when_overdue([this] { run_pending(); });
  thread_ = start_background_thread(name, [this] { run(); });
}

OperationQueue::OperationQueue(const std::string& name, std::string origin,
                               std::shared_ptr<FlightRecorder> recorder, Execute execute,
                               std::shared_ptr<BreakReport> report)
    : OperationQueue(name, std::move(origin), std::move(recorder), std::move(execute), Poster(),
                     std::move(report)) {}

OperationQueue::~OperationQueue() {
  stop([] {});
}

void OperationQueue::stop(const std::function<void()>& interrupt) {
  if (!thread_.joinable()) return;
  recorder_->hang().when_overdue(nullptr);
  Lock lock(mutex_);
  leaving_ = true;
  assign_to_thread(submitted_);
  work_done_.wait_until(lock, Deadline::after(kLeaveTimeout).time_point(),
                        [this] { return completed_ == submitted_ || error_; });
  stopping_ = true;
  work_arrived_.notify_all();
  lock.unlock();
  interrupt();
  thread_.join();
}

std::uint64_t OperationQueue::submit(std::span<const Collective> operations) {
  if (operations.size() > kCapacity) {
    throw std::logic_error(origin_ + ": more than " + std::to_string(kCapacity) +
                           " operations in one batch");
  }
  std::unique_lock lock(mutex_);
  wait_for_room(operations.size(), lock);
  if (error_) std::rethrow_exception(error_);
  append(operations);
  if (operations.size() > 1 || needs_thread()) assign_to_thread(submitted_);
  return submitted_;
}

// Waits until half of the ring is free, so that the two threads do not wake each other for every
// operation.
void OperationQueue::wait_for_room(std::size_t operations, Lock& lock) {
  if (has_room_for(operations)) return;
  assign_to_thread(submitted_);  // those that were left to a waiting thread, too
  room_made_.wait(lock, [&] { return error_ || (has_much_room() && has_room_for(operations)); });
}

bool OperationQueue::has_room_for(std::size_t operations) const {
  return submitted_ - completed_ + operations <= kCapacity;
}

void OperationQueue::append(std::span<const Collective> operations) {
  const std::uint64_t batch_end = submitted_ + operations.size();
  for (const Collective& each : operations) {
    Entry& next = entry(++submitted_) = Entry();
    next.collective = each;
    next.batch_end = batch_end;
    recorder_->submitted(batch_end, each);
  }
}

// Returns whether the queue's thread must run the last operation. If not, the operation runs when
// some thread waits for it.
bool OperationQueue::needs_thread() {
  Entry& last = entry(submitted_);
  last.posting = post_last();
  if (last.posting == Posting::kUseful) last.submitted = Clock::now();
  return last.posting == Posting::kUseful ? wake_policy_.wakes() : last.posting != Posting::kLittle;
}

OperationQueue::Posting OperationQueue::post_last() {
  const Collective& collective = entry(submitted_).collective;
  const bool can_post =
      poster_.post && posted_ + 1 == submitted_ && !depends_on_pending(collective);
  const Posting posting = can_post ? try_to_post(collective) : Posting::kNotPosted;
  if (posting != Posting::kNotPosted) posted_ = submitted_;
  return posting;
}

// The operation is submitted already, so the caller must not see it fail: it runs without having
// been posted. If memory is still short then, that breaks the group.
OperationQueue::Posting OperationQueue::try_to_post(const Collective& collective) {
  try {
    return poster_.post(collective);
  } catch (const std::exception&) {
    return Posting::kNotPosted;
  }
}

void OperationQueue::note_wait(std::uint64_t sequence) {
  const Entry& waited = entry(sequence);
  if (submitted_ - sequence >= kCapacity || waited.posting != Posting::kUseful) return;
  wake_policy_.note_wait(Clock::now() - waited.submitted);
}

bool OperationQueue::depends_on_pending(const Collective& collective) {
  for (std::uint64_t sequence = completed_ + 1; sequence < submitted_; ++sequence) {
    if (overlap(entry(sequence).collective, collective)) return true;
  }
  return false;
}

void OperationQueue::assign_to_thread(std::uint64_t sequence) {
  if (sequence <= std::max(assigned_, completed_)) return;
  assigned_ = sequence;
  work_arrived_.notify_one();
}

void OperationQueue::wait(std::uint64_t sequence, Timeout timeout) {
  Lock lock(mutex_);
  note_wait(sequence);
  const auto settled = [&] { return completed_ >= sequence || error_; };
  if (poster_.post && timeout == Timeout::max()) {
    help_until(settled, lock);
  } else {
    assign_to_thread(sequence);
    if (!work_done_.wait_until(lock, Deadline::after(timeout).time_point(), settled)) {
      const CollectiveSignature signature = signature_of(entry(sequence).collective, sequence);
      throw TimeoutError(origin_ + ": " + to_string(signature) + " is not done after " +
                         std::to_string(timeout.count()) + " ms");
    }
  }
  if (sequence == submitted_) wake_policy_.note_wait_ended();
  if (completed_ >= sequence) return;
  work_done_.wait_for(lock, kErrorGrace, [this] { return !executing_; });
  std::rethrow_exception(error_);
}

// Runs the next operations on the calling thread, unless another thread does.
template <class Settled>
void OperationQueue::help_until(const Settled& settled, Lock& lock) {
  while (!settled()) {
    if (executing_) {
      work_done_.wait(lock);
    } else if (!finish_next()) {
      run_batch(lock);
    }
  }
}

// Keeps the lock: the rest of the operation takes less time than releasing and taking the lock.
bool OperationQueue::finish_next() {
  const Entry& next = entry(completed_ + 1);
  if (next.posting != Posting::kLittle) return false;
  const Clock::time_point begin = Clock::now();
  if (!poster_.finish(next.collective)) return false;
  const Clock::time_point end = Clock::now();
  complete(1, {begin, end}, end);
  tell_of_completion();
  return true;
}

std::optional<Interval> OperationQueue::interval(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence <= submitted_) assign_to_thread(sequence);
  const bool is_known = sequence > 0 && sequence <= completed_ && submitted_ - sequence < kCapacity;
  return is_known ? std::optional(entry(sequence).ran) : std::nullopt;
}

bool OperationQueue::wait_idle(Timeout timeout) {
  std::unique_lock lock(mutex_);
  assign_to_thread(submitted_);
  return work_done_.wait_until(lock, Deadline::after(timeout).time_point(), [this] {
    return !executing_ && (error_ || stopping_ || completed_ == submitted_);
  });
}

bool OperationQueue::wait_released(const Buffer& memory, Timeout timeout) {
  std::unique_lock lock(mutex_);
  std::uint64_t last = submitted_;
  while (last > completed_ && !uses(memory, entry(last).collective)) --last;
  assign_to_thread(last);
  return work_done_.wait_until(lock, Deadline::after(timeout).time_point(), [&] {
    return completed_ >= last || (!executing_ && (error_ || stopping_));
  });
}

void OperationQueue::run_pending() {
  const std::lock_guard lock(mutex_);
  assign_to_thread(submitted_);
}

bool OperationQueue::is_broken() {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

bool OperationQueue::has_ended() {
  const std::lock_guard lock(mutex_);
  return error_ && !executing_;
}

void OperationQueue::fail(std::exception_ptr error) {
  error = report(std::move(error));
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  work_arrived_.notify_all();
  work_done_.notify_all();
  room_made_.notify_all();
}

void OperationQueue::run() {
  ask_for_short_turns();
  Lock lock(mutex_);
  for (;;) {
    work_arrived_.wait(
        lock, [this] { return stopping_ || error_ || (assigned_ > completed_ && !executing_); });
    if (!may_run()) break;
    run_batch(lock);
  }
  work_done_.notify_all();
}

// Runs the next batch on the calling thread, without the lock. No other thread changes completed_
// meanwhile.
void OperationQueue::run_batch(Lock& lock) {
  take_batch();
  lock.unlock();
  const Clock::time_point begin = Clock::now();
  recorder_->started(completed_ + batch_.size(), begin);
  std::optional<Interval> ran;
  std::exception_ptr error;
  try {
    ran = execute_(batch_);
  } catch (...) {
    error = std::current_exception();
  }
  const Clock::time_point now = Clock::now();
  if (error) error = report(std::move(error));
  lock.lock();
  finish_batch(ran.value_or(Interval{begin, now}), now, std::move(error));
}

void OperationQueue::take_batch() {
  batch_.clear();
  executing_ = true;
  const std::uint64_t last = entry(completed_ + 1).batch_end;
  for (std::uint64_t sequence = completed_ + 1; sequence <= last; ++sequence) {
    batch_.push_back(entry(sequence).collective);
  }
}

void OperationQueue::finish_batch(const Interval& ran, Clock::time_point now,
                                  std::exception_ptr error) {
  executing_ = false;
  if (!error) complete(batch_.size(), ran, now);
  posted_ = std::max(posted_, completed_);
  if (error && !error_) error_ = std::move(error);
  tell_of_completion();
}

// Without the lock, since that takes as long as a disk does not answer. Of several errors at a
// time, returns the one that is told, which is to be thrown. A failure because this rank leaves is
// not an error.
std::exception_ptr OperationQueue::report(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!first_error_) first_error_ = std::move(error);
    error = first_error_;
  }
  report_->tell(*recorder_, leaving_.load() ? nullptr : error);
  return error;
}

// Completes the next operations, one batch. Another rank may have run a posted operation earlier;
// `now` is when this rank knows of it.
void OperationQueue::complete(std::size_t operations, const Interval& ran, Clock::time_point now) {
  for (std::size_t i = 0; i < operations; ++i) entry(++completed_).ran = ran;
  recorder_->done(completed_, now);
}

void OperationQueue::tell_of_completion() {
  if (error_ || stopping_ || assigned_ > completed_) work_arrived_.notify_all();
  work_done_.notify_all();
  if (error_ || has_much_room()) room_made_.notify_all();
}

}  // namespace ddp
