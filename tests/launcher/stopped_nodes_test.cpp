// SPDX-License-Identifier: MIT
//
// Nodes of a job that are stopped for a while, as by Ctrl-Z, and then go on.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "ddp/base/endpoint.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/process_status.h"
#include "ddp/base/time.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/node_watch.h"
#include "support/meet_nodes.h"
#include "support/run_ranks.h"

using ddp::Deadline;
using ddp::Endpoint;
using ddp::TcpServer;
using ddp::Timeout;
using ddp::test::expect;
using ddp::test::meet;
using ddp::test::plan_of;
using ddp::test::run_ranks;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// A host that can be stopped for a while: a process that runs `body` and exits with its result.
// `body` may write to a pipe, which the test reads.
class StoppableProcess {
 public:
  explicit StoppableProcess(const std::function<int(int pipe)>& body) {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    pipe_ = ddp::FileDescriptor(fds[0]);
    const ddp::FileDescriptor write_end(fds[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body(write_end.get()));
  }
  StoppableProcess(const StoppableProcess&) = delete;
  StoppableProcess& operator=(const StoppableProcess&) = delete;
  ~StoppableProcess() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // Reads a number that the process has written.
  [[nodiscard]] std::uint16_t read() const {
    std::uint16_t number = 0;
    expect(::read(pipe_.get(), &number, sizeof(number)) == sizeof(number), "the process writes");
    return number;
  }

  void stop_for(Timeout time) const {
    ::kill(pid_, SIGSTOP);
    std::this_thread::sleep_for(time);
    ::kill(pid_, SIGCONT);
  }

  // Its exit code.
  [[nodiscard]] int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return ddp::exit_code_of(status);
  }

 private:
  ddp::FileDescriptor pipe_;
  pid_t pid_ = 0;
};

void write_number(int pipe, std::uint16_t number) {
  expect(::write(pipe, &number, sizeof(number)) == sizeof(number), "somebody reads");
}

int serve(int pipe) {
  const TcpServer server({"127.0.0.1", 0});
  write_number(pipe, server.endpoint().port);
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("the other nodes wait for a node 0 that is stopped for a while", "[nodes]") {
  const StoppableProcess host(serve);
  const Endpoint endpoint{"127.0.0.1", host.read()};
  run_ranks(2, [&](int i) {
    NodePlan plan{.rank = 1, .count = 2, .store = endpoint};
    if (i == 1) {
      expect(meet(plan, 1).self == 1, "node 1 has met node 0");
      return;
    }
    ddp::TcpStore store(endpoint, 10s);
    store.set("ddp-launch/terms", "");
    store.set("ddp-launch/run_id", "job");
    (void)store.get("ddp-launch/node/1");
    host.stop_for(2500ms);
    plan.rank = 0;
    plan.run_id = "job";
    expect(meet(plan, 1).nodes.size() == 2, "both are there");
  });
}

namespace {

constexpr SignsOfLife kQuickSigns{.period = 50ms, .vanished = 4s};

// Runs two nodes for 8 s.
int run_for_a_while(int pipe) try {
  const Deadline end = Deadline::after(8s);
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1), kQuickSigns);
    if (rank == 0) write_number(pipe, 1);
    while (!end.passed()) {
      expect(watch.news().lost.empty(), "nobody is lost");
      pollfd entry{watch.fd(), POLLIN, 0};
      ::poll(&entry, 1, static_cast<int>(end.remaining().count()));
    }
    watch.leave();
  });
  return 0;
} catch (const std::exception&) {
  return 1;
}

}  // namespace

TEST_CASE("a job that is suspended on all nodes loses no node", "[nodes]") {
  StoppableProcess job(run_for_a_while);
  (void)job.read();
  job.stop_for(5s);
  CHECK(job.wait() == 0);
}
