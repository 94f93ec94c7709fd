// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/store/tcp_server.h"
#include "support/child_process.h"
#include "support/free_endpoint.h"

namespace ddp::test {

// The names of the backends that work between processes on one host.
inline std::vector<std::string> cpu_backends() { return {"shm", "tcp"}; }

using Environment = std::vector<std::pair<std::string, std::string>>;

// Where a job's store is: in the test, as in a launcher, or in rank 0, as without one.
enum class StoreHost : std::uint8_t { kTest, kRank0 };

// Worker processes. Those in the mode "patient" use the library's default periods and timeouts.
class Job {
 public:
  Job(int world_size, const std::string& mode, const std::string& backend = "auto",
      const std::string& patience = "quick",
      const std::function<Environment(int rank)>& more_environment = {},
      StoreHost host = StoreHost::kTest)
      : store_(host == StoreHost::kTest ? server_.emplace(kAnyPort).endpoint() : free_endpoint()) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::string r = std::to_string(rank);
      const std::string n = std::to_string(world_size);
      Environment environment = more_environment ? more_environment(rank) : Environment();
      environment.insert(environment.end(),
                         {{"RANK", r},
                          {"LOCAL_RANK", r},
                          {"WORLD_SIZE", n},
                          {"LOCAL_WORLD_SIZE", n},
                          {"MASTER_ADDR", store_.host},
                          {"MASTER_PORT", std::to_string(store_.port)},
                          {"TORCHELASTIC_USE_AGENT_STORE", server_ ? "True" : "False"}});
      workers_.push_back(std::make_unique<ChildProcess>(
          std::vector<std::string>{DDP_COLLECTIVE_WORKER_PATH, mode, backend, patience},
          ChildProcess::Options{.environment = environment}));
    }
  }

  ChildProcess& operator[](int rank) { return *workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Endpoint store() const { return store_; }
  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()); }
  void wait_until_ready() {
    for (const auto& worker : workers_) worker->wait_for_output("ready");
  }
  // How each rank ended: its exit code, or the reason why there is none, and its output.
  std::vector<std::string> wait_all(Timeout timeout) {
    std::vector<std::string> ends;
    for (const auto& worker : workers_) {
      std::string end;
      try {
        end = std::to_string(worker->wait(timeout));
      } catch (const TimeoutError&) {
        end = "still running";
      }
      ends.push_back(end + ", stdout '" + worker->out() + "', stderr '" + worker->err() + "'");
    }
    return ends;
  }

 private:
  static inline const Endpoint kAnyPort{"127.0.0.1", 0};

  std::optional<TcpServer> server_;
  Endpoint store_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace ddp::test
