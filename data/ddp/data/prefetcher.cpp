// SPDX-License-Identifier: MIT
#include "ddp/data/prefetcher.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/busy_with.h"
#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/background_thread.h"

namespace ddp {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);  // with running tasks, until a warning

}  // namespace

Prefetcher::Prefetcher(const Options& options, Task task) : task_(std::move(task)) {
  if (options.num_threads < 0 || options.window < 1) {
    throw std::invalid_argument("[prefetcher] " + std::to_string(options.num_threads) +
                                " threads and a window of " + std::to_string(options.window) +
                                "; num_threads must be at least 0 and the window at least 1");
  }
  slots_.resize(static_cast<std::size_t>(options.window));
  try {
    start_threads(options.num_threads);
  } catch (...) {
    stop();
    throw;
  }
}

void Prefetcher::start_threads(int count) {
  threads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads_.push_back(start_program_thread("ddp-data-" + std::to_string(i), [this] { work(); }));
  }
}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    cancelled_.request_stop();
    may_begin_.notify_all();
  }
  warn_of_running();
  for (std::thread& thread : threads_) thread.join();
}

// An exception that unwinds the stack destroys the loader before anybody can report it.
void Prefetcher::warn_of_running() {
  std::unique_lock lock(mutex_);
  if (has_ended_.wait_for(lock, kPatience, [this] { return running_ == 0; })) return;
  logging::warning(
      fmt::format("[data_loader] the end of the loader waits for {} still inside Dataset::read(){}",
                  running_ == 1 ? "a worker that is" : fmt::format("{} workers that are", running_),
                  rethrown_ ? "; next() has thrown: " + describe(rethrown_) : ""));
}

void Prefetcher::start(std::int64_t steps) {
  cancel();
  const std::lock_guard lock(mutex_);
  std::fill(slots_.begin(), slots_.end(), Slot{});
  begun_ = released_ = 0;
  steps_ = steps;
  cancelled_ = std::stop_source();
  rethrown_ = nullptr;
  may_begin_.notify_all();
}

void Prefetcher::cancel() {
  std::unique_lock lock(mutex_);
  steps_ = begun_;
  cancelled_.request_stop();
  has_ended_.wait(lock, [this] { return running_ == 0; });
}

void Prefetcher::wait(std::int64_t step) {
  std::unique_lock lock(mutex_);
  if (step != released_ || step >= steps_) {
    throw std::logic_error("[prefetcher] wait for task " + std::to_string(step) + " of " +
                           std::to_string(steps_) + ", with " + std::to_string(released_) +
                           " released");
  }
  const Slot& awaited = slot(step);
  if (!awaited.done) {
    const BusyWith busy("loading data");
    if (threads_.empty()) run_next(lock);
    has_ended_.wait(lock, [&] { return awaited.done; });
  }
  if (!awaited.error) return;
  rethrown_ = awaited.error;
  std::rethrow_exception(rethrown_);
}

void Prefetcher::release(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  slot(step) = {};
  released_ = step + 1;
  may_begin_.notify_one();
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    may_begin_.wait(lock, [this] { return stopping_ || can_begin(); });
    if (stopping_) return;
    run_next(lock);
  }
}

bool Prefetcher::can_begin() const {
  return begun_ < std::min(steps_, released_ + static_cast<std::int64_t>(slots_.size()));
}

void Prefetcher::run_next(std::unique_lock<std::mutex>& lock) {
  const std::int64_t step = begun_++;
  ++running_;
  const std::stop_token cancelled = cancelled_.get_token();
  lock.unlock();
  std::exception_ptr error;
  try {
    task_(step, cancelled);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  slot(step) = {.done = true, .error = std::move(error)};
  --running_;
  has_ended_.notify_all();
}

Prefetcher::Slot& Prefetcher::slot(std::int64_t step) {
  return slots_[static_cast<std::size_t>(step) % slots_.size()];
}

}  // namespace ddp
