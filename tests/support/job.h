// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/socket.h"
#include "ddp/collectives/gloo/gloo_process_group.h"
#include "ddp/store/tcp_server.h"
#include "support/child_process.h"

namespace ddp::test {

// The names of the backends that work between processes on one host.
inline std::vector<std::string> cpu_backends() {
  std::vector<std::string> names = {"shm"};
  if (gloo_is_compiled_in()) names.emplace_back("gloo");
  return names;
}

using Environment = std::vector<std::pair<std::string, std::string>>;

// For a Job whose rank 0 hosts the store, as without a launcher.
inline Environment store_on_rank0() {
  const std::uint16_t free_port = Socket::listen({"127.0.0.1", 0}).local_endpoint().port;
  return {{"MASTER_PORT", std::to_string(free_port)}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
}

// Worker processes with a store that the test hosts, as an agent would. Those in the mode "patient"
// use the library's default periods and timeouts. More environment takes precedence.
class Job {
 public:
  Job(int world_size, const std::string& mode, const std::string& backend = "auto",
      const std::string& patience = "quick",
      const std::function<Environment(int rank)>& more_environment = {})
      : server_({"127.0.0.1", 0}) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::string r = std::to_string(rank);
      const std::string n = std::to_string(world_size);
      Environment environment = {{"RANK", r},
                                 {"LOCAL_RANK", r},
                                 {"WORLD_SIZE", n},
                                 {"LOCAL_WORLD_SIZE", n},
                                 {"MASTER_ADDR", "127.0.0.1"},
                                 {"MASTER_PORT", std::to_string(server_.endpoint().port)},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
      if (more_environment)
        std::ranges::copy(more_environment(rank), std::back_inserter(environment));
      workers_.push_back(std::make_unique<ChildProcess>(
          std::vector<std::string>{DDP_COLLECTIVE_WORKER_PATH, mode, backend, patience},
          ChildProcess::Options{.environment = environment}));
    }
  }

  ChildProcess& operator[](int rank) { return *workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Endpoint store() const { return server_.endpoint(); }
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
  TcpServer server_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace ddp::test
