// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/replica_thread.h"

#include <utility>

#include "ddp/base/threads/background_thread.h"
#include "ddp/cuda/cuda.h"

namespace ddp::nn {

ReplicaThread::ReplicaThread(Device device)
    : thread_(start_program_thread("ddp-replica", [this] { run(); })) {
  start([device] { cu::make_current(device); });
}

ReplicaThread::~ReplicaThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReplicaThread::start(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
  work_ = std::move(work);
  error_ = nullptr;
  changed_.notify_all();
}

void ReplicaThread::wait() {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
  if (auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

void ReplicaThread::finish() {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
}

void ReplicaThread::wait_until_idle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return !work_; });
}

// Work that was started is finished before the thread ends.
void ReplicaThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return work_ || is_stopping_; });
    if (!work_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace ddp::nn
