// SPDX-License-Identifier: MIT
#include "store/throughput.h"

#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>

namespace ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;

long run_until(const std::atomic<bool>& stopping, const std::function<void()>& operation) {
  long finished = 0;
  while (!stopping.load(std::memory_order_relaxed)) {
    operation();
    ++finished;
  }
  return finished;
}

}  // namespace

double operations_per_second(const std::vector<std::function<void()>>& clients,
                             std::chrono::milliseconds slice) {
  if (clients.empty() || slice.count() <= 0) {
    throw std::invalid_argument("operations_per_second: " + std::to_string(clients.size()) +
                                " clients for " + std::to_string(slice.count()) + " ms");
  }
  std::atomic<bool> stopping{false};
  std::latch ready(static_cast<std::ptrdiff_t>(clients.size()) + 1);
  std::vector<std::future<long>> running;
  for (const auto& operation : clients) {
    running.push_back(std::async(std::launch::async, [&] {
      ready.arrive_and_wait();
      return run_until(stopping, operation);
    }));
  }
  ready.arrive_and_wait();
  const auto start = Clock::now();
  std::this_thread::sleep_for(slice);
  stopping.store(true);
  long finished = 0;
  for (auto& client : running) finished += client.get();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  return static_cast<double>(finished) / elapsed.count();
}

}  // namespace ddp::bench
