// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace ddp {

// A call that only one thread may make at a time. No lock: a second thread gets a std::logic_error,
// and the call of the first one goes on undisturbed.
class SoleCall {
 public:
  // `is_running` belongs to the calls that exclude each other.
  explicit SoleCall(std::atomic<bool>& is_running) : is_running_(is_running) {
    if (is_running_.exchange(true, std::memory_order_acquire)) refuse();
  }
  ~SoleCall() { is_running_.store(false, std::memory_order_release); }
  SoleCall(const SoleCall&) = delete;
  SoleCall& operator=(const SoleCall&) = delete;

 private:
  [[noreturn]] static void refuse();

  std::atomic<bool>& is_running_;
};

}  // namespace ddp
