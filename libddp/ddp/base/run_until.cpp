// SPDX-License-Identifier: MIT
#include "ddp/base/run_until.h"

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "ddp/base/background_thread.h"

namespace ddp {

bool run_until(Deadline deadline, std::function<void()> action) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(action));
  std::future<void> result = task->get_future();
  std::thread thread = start_background_thread("ddp-helper", [task] { (*task)(); });
  if (result.wait_until(deadline.time_point()) != std::future_status::ready) {
    thread.detach();
    return false;
  }
  thread.join();
  result.get();
  return true;
}

}  // namespace ddp
