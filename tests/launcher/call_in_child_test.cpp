// SPDX-License-Identifier: MIT
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "launcher/processes/call_in_child.h"
#include "support/run_ranks.h"

using ddp::launcher::call_in_child;
using ddp::test::error_of;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kPatience = std::chrono::minutes(1);

std::string error_of_child(const std::function<std::string()>& function,
                           milliseconds timeout = kPatience) {
  return error_of([&] { static_cast<void>(call_in_child(function, timeout)); });
}

}  // namespace

TEST_CASE("a child's answer is returned whole", "[launcher]") {
  for (const std::size_t size : {0, 1, 1 << 20}) {
    CHECK(call_in_child([&] { return std::string(size, 'x'); }, kPatience) ==
          std::string(size, 'x'));
  }
  CHECK(call_in_child([] { return std::to_string(::getpid()); }, kPatience) !=
        std::to_string(::getpid()));
}

TEST_CASE("a child without an answer is an error that says why", "[launcher]") {
  CHECK(error_of_child([]() -> std::string { ::_exit(3); }) == "exited with code 3");
  CHECK(error_of_child([]() -> std::string {
          ::raise(SIGKILL);
          return "";
        }) == "was killed by SIGKILL");
}

TEST_CASE("a child that hangs is killed when the time is over", "[launcher]") {
  int fds[2];
  REQUIRE(::pipe(fds) == 0);
  CHECK(error_of_child(
            []() -> std::string {
              for (;;) ::pause();
            },
            milliseconds(200)) == "has not answered for 0.2 s");
  ::close(fds[1]);
  pollfd end{.fd = fds[0], .events = POLLIN, .revents = 0};
  CHECK(::poll(&end, 1, 10'000) == 1);  // no process has the other end any more
  ::close(fds[0]);
}
