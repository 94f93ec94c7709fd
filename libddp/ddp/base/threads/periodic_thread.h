// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "ddp/base/time.h"

namespace ddp {

// A background thread that calls `tick` at once and then every `period`, until `tick` returns false
// or throws. A TimeoutError does not end it: the tick is tried again, since a store may have been
// stopped for a while. A NetworkError is how a job's end looks, and is logged at debug level; any
// other error is a warning. The destructor waits for a running tick, so a tick's own waits must be
// bounded.
class PeriodicThread {
 public:
  PeriodicThread(const std::string& name, Timeout period, std::function<bool()> tick);
  ~PeriodicThread();
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

 private:
  void run(const std::string& name, Timeout period, const std::function<bool()>& tick);

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ddp
