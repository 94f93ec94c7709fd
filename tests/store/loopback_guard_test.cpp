// SPDX-License-Identifier: MIT
//
// A store at a loopback address serves its own user and root, and no other user of the host.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kUser = 54321;
constexpr uid_t kOther = 54322;

// Runs a function in a process of another user, and returns its result as an exit code.
pid_t fork_as(uid_t user, const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 100;
  try {
    if (::setuid(user) == 0) code = run();
  } catch (...) {
  }
  ::_exit(code);
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A server in a process of its own.
class ServerOf {
 public:
  ServerOf(uid_t user, const std::string& host) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    FileDescriptor theirs(ends[1]);
    ours_ = FileDescriptor(ends[0]);
    pid_ = fork_as(user, [&] {
      ours_.reset();
      const TcpServer server({host, 0});
      std::uint16_t port = server.endpoint().port;
      if (::write(theirs.get(), &port, sizeof(port)) != sizeof(port)) return 1;
      return static_cast<int>(::read(theirs.get(), &port, 1));  // until the test is over
    });
    theirs.reset();
    std::uint16_t port = 0;
    REQUIRE(::read(ours_.get(), &port, sizeof(port)) == sizeof(port));
    endpoint_ = {host, port};
  }
  ~ServerOf() {
    ours_.reset();
    wait_for(pid_);
  }
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  // Meanwhile the kernel completes connections, which the server accepts afterwards.
  void pause() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void resume() const { ::kill(pid_, SIGCONT); }

 private:
  FileDescriptor ours_;
  pid_t pid_;
  Endpoint endpoint_;
};

bool can_set(const Endpoint& server, uid_t user, const std::string& key) {
  const pid_t client = fork_as(user, [&] {
    try {
      TcpStore(server, 10s).set(key, "");
      return 0;
    } catch (const Error&) {
      return 1;
    }
  });
  const int code = wait_for(client);
  REQUIRE((code == 0 || code == 1));
  return code == 0;
}

// Sends a whole request and leaves, before the server can ask who sent it.
int send_and_leave(const Endpoint& server, const std::string& key, bool resets) {
  Socket socket = Socket::connect(server, Deadline::after(5s));
  std::string bytes;
  wire::Writer(bytes).opcode(wire::Opcode::kValidate).integer(wire::kMagic);
  wire::Writer(bytes).opcode(wire::Opcode::kSet).user_key(key).bytes("");
  socket.send_all(std::as_bytes(std::span(bytes)), Deadline::after(5s));
  const linger now{.l_onoff = 1, .l_linger = 0};
  if (resets) ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  return 0;
}

bool is_skipped() {
  if (::geteuid() == 0) return false;
  WARN("SKIPPED: only root can start processes of other users");
  return true;
}

}  // namespace

TEST_CASE("a store on loopback serves its user and root, and no other user", "[store]") {
  if (is_skipped()) return;
  const std::string host = GENERATE(as<std::string>{}, "127.0.0.1", "::1");
  CAPTURE(host);
  const ServerOf server(kUser, host);
  CHECK(can_set(server.endpoint(), kUser, "own"));
  CHECK(can_set(server.endpoint(), 0, "root"));
  CHECK_FALSE(can_set(server.endpoint(), kOther, "other"));
  for (const bool is_paused : {false, true}) {
    if (is_paused) server.pause();
    for (int i = 0; i < 20; ++i) {
      const auto intrude = [&] { return send_and_leave(server.endpoint(), "quick", i % 2 == 0); };
      CHECK(wait_for(fork_as(kOther, intrude)) == 0);
    }
    server.resume();
  }
  TcpStore store(server.endpoint());
  CHECK(store.has("own"));
  CHECK(store.has("root"));
  CHECK_FALSE(store.has("other"));
  CHECK_FALSE(store.has("quick"));
}

TEST_CASE("root's store serves all users, whose processes root may have started", "[store]") {
  if (is_skipped()) return;
  const ServerOf server(0, "127.0.0.1");
  CHECK(can_set(server.endpoint(), kUser, "user"));
}

}  // namespace ddp
