// SPDX-License-Identifier: MIT
#include "ddp/collectives/run_until.h"

#include <future>
#include <thread>

namespace ddp {

bool run_until(Deadline deadline, std::function<void()> action) {
  std::packaged_task<void()> task(std::move(action));
  std::future<void> result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_until(deadline.time_point()) != std::future_status::ready) {
    thread.detach();
    return false;
  }
  thread.join();
  result.get();
  return true;
}

}  // namespace ddp
