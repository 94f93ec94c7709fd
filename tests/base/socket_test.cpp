// SPDX-License-Identifier: MIT
#include "ddp/base/net/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "support/descriptor_limit.h"
#include "support/in_child.h"
#include "support/own_network.h"
#include "support/run_ranks.h"
#include "support/two_addresses.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;

namespace {

std::atomic<bool> poll_is_rash{false};
std::atomic<bool> lacks_ipv6{false};

}  // namespace

// Replaces the C library's poll(): while `poll_is_rash`, reports the first descriptor as ready at
// once.
extern "C" int poll(pollfd* entries, nfds_t count, int timeout) {
  if (poll_is_rash) {
    entries[0].revents = POLLIN | POLLOUT;
    return 1;
  }
  // Not every kernel has a call poll: that of 64-bit ARM has none.
  const timespec limit{timeout / 1000, timeout % 1000 * 1000000L};
  return ::ppoll(entries, count, timeout < 0 ? nullptr : &limit, nullptr);
}

// Replaces the C library's function: while `lacks_ipv6`, behaves like a kernel without IPv6.
extern "C" int socket(int family, int type, int protocol) {
  if (lacks_ipv6 && family == AF_INET6) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_socket, family, type, protocol));
}

TEST_CASE("sockets carry bytes both ways over IPv4 and IPv6", "[base]") {
  for (const char* host : {"127.0.0.1", "::1"}) {
    Socket listener = Socket::listen({host, 0});
    Endpoint endpoint = listener.local_endpoint();
    const Deadline deadline = Deadline::after(5s);
    Socket client = Socket::connect(endpoint, deadline);
    REQUIRE(listener.wait_readable(deadline));
    Socket server = *listener.accept();
    CHECK_FALSE(listener.accept().has_value());
    std::vector<std::byte> sent(3 << 20, std::byte{7});
    std::vector<std::byte> received(sent.size());
    std::thread sender([&] { client.send_all(sent, deadline); });
    server.receive_all(received, deadline);
    sender.join();
    CHECK(received == sent);
    CHECK(server.peer_endpoint().port == client.local_endpoint().port);
  }
}

TEST_CASE("waits of a socket end at their deadline", "[base]") {
  Socket listener = Socket::listen({"127.0.0.1", 0});
  Socket client = Socket::connect(listener.local_endpoint(), Deadline::after(5s));
  std::array<std::byte, 1> byte{};
  CHECK(error_of([&] { client.receive_all(byte, Deadline::after(10ms)); }) ==
        "timed out while receiving");
  const std::vector<std::byte> flood(64 << 20);
  CHECK(error_of([&] { client.send_all(flood, Deadline::after(10ms)); }) ==
        "timed out while sending");
}

namespace {

// Sends signals that interrupt system calls while it exists.
class SignalStorm {
 public:
  explicit SignalStorm(std::chrono::microseconds period) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, &previous_);
    const timeval interval{0, static_cast<suseconds_t>(period.count())};
    const itimerval timer{interval, interval};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~SignalStorm() {
    const itimerval off{};
    setitimer(ITIMER_REAL, &off, nullptr);
    sigaction(SIGALRM, &previous_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  struct sigaction previous_ {};
};

}  // namespace

TEST_CASE("signals do not move a socket's deadline", "[base]") {
  Socket listener = Socket::listen({"127.0.0.1", 0});
  Socket client = Socket::connect(listener.local_endpoint(), Deadline::after(5s));
  std::array<std::byte, 1> byte{};
  const auto begin = Clock::now();
  {
    const SignalStorm storm(20ms);
    CHECK_FALSE(client.receive_until(byte, Deadline::after(300ms)).has_value());
  }
  CHECK(Clock::now() - begin >= 300ms);
  CHECK(Clock::now() - begin < 10s);
}

TEST_CASE("both ends of an idle connection ask whether the other is still there", "[base]") {
  Socket listener = Socket::listen({"127.0.0.1", 0});
  const Socket client = Socket::connect(listener.local_endpoint(), Deadline::after(5s));
  REQUIRE(listener.wait_readable(Deadline::after(5s)));
  const std::optional<Socket> server = listener.accept();
  for (const Socket* end : {&client, &*server}) {
    const auto option = [end](int level, int name) {
      int value = 0;
      socklen_t size = sizeof(value);
      return getsockopt(end->fd(), level, name, &value, &size) == 0 ? value : -1;
    };
    CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) == 60);
  }
}

TEST_CASE("of a name's addresses, the first that this machine has is listened on", "[base]") {
  CHECK(Socket::listen({"192.0.2.77,127.0.0.1", 0}).local_endpoint().host == "127.0.0.1");
  const Endpoint taken = Socket::listen({"127.0.0.1,127.0.0.2", 0}).local_endpoint();
  CHECK(taken.host == "127.0.0.1");
  const Socket holder = Socket::listen(taken);
  for (const char* host : {"127.0.0.1,127.0.0.2", "192.0.2.77,127.0.0.1"}) {
    CHECK_THAT(error_of([&] {
                 Socket::listen({host, taken.port});
               }),
               Catch::Contains("cannot listen on 127.0.0.1:") && Catch::Contains("in use"));
  }
  CHECK_THAT(error_of([] {
               Socket::listen({"192.0.2.77,192.0.2.78", 0});
             }),
             Catch::Contains("cannot listen on 192.0.2.77:0: Cannot assign"));
}

TEST_CASE("a name to listen on is resolved only once", "[base]") {
  const auto begin = Clock::now();
  CHECK_THAT(error_of([] {
               Socket::listen({"no such host", 0});
             }),
             Catch::StartsWith("cannot resolve host 'no such host'"));
  CHECK(Clock::now() - begin < 5s);
}

TEST_CASE("an unknown host is an error that names it", "[base]") {
  CHECK_THAT(error_of([] {
               Socket::connect({"no such host", 1}, Deadline::after(50ms));
             }),
             Catch::StartsWith("cannot resolve host 'no such host'"));
}

TEST_CASE("a host may be given by name", "[base]") {
  addrinfo* found = nullptr;
  if (::getaddrinfo("localhost", nullptr, nullptr, &found) != 0) {
    WARN("SKIPPED: this system does not know the name localhost");
    return;
  }
  ::freeaddrinfo(found);
  const Socket listener = Socket::listen({"localhost", 0});
  const Socket client =
      Socket::connect({"localhost", listener.local_endpoint().port}, Deadline::after(5s));
  CHECK(client.peer_endpoint().port == listener.local_endpoint().port);
}

namespace {

// A loopback port that neither accepts nor refuses connections, because its queue is full.
class FullPort {
 public:
  FullPort() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener_.get(), generic, length) == 0);
    REQUIRE(::listen(listener_.get(), 0) == 0);
    REQUIRE(::getsockname(listener_.get(), generic, &length) == 0);
    port_ = ntohs(address.sin_port);
    for (FileDescriptor& waiting : waiting_) {
      waiting = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(waiting.get(), generic, length);
    }
  }

  [[nodiscard]] Endpoint endpoint() const { return {"127.0.0.1", port_}; }

 private:
  FileDescriptor listener_;
  std::array<FileDescriptor, 2> waiting_;
  std::uint16_t port_ = 0;
};

}  // namespace

TEST_CASE("a peer that does not answer is not connected, whatever poll reports", "[base]") {
  const FullPort port;
  const auto connect = [&] { Socket::connect(port.endpoint(), Deadline::after(50ms)); };
  CHECK_THAT(error_of(connect), Catch::EndsWith("Connection timed out)"));
  poll_is_rash = true;
  const std::string error = error_of(connect);
  poll_is_rash = false;
  CHECK_THAT(error, Catch::EndsWith("Transport endpoint is not connected)"));
}

TEST_CASE("a host answers that accepts a connection, or refuses it", "[base]") {
  const FullPort full;
  CHECK_FALSE(host_answers(full.endpoint(), Deadline::after(50ms)));
  std::optional<Socket> listener = Socket::listen({"127.0.0.1", 0});
  const Endpoint endpoint = listener->local_endpoint();
  CHECK(host_answers(endpoint, Deadline::after(5s)));
  listener.reset();
  CHECK(host_answers(endpoint, Deadline::after(5s)));
}

TEST_CASE("an address that does not answer leaves time for the others", "[base]") {
  const FullPort port;
  const Socket listener = Socket::listen({"127.0.0.2", port.endpoint().port});
  const auto begin = Clock::now();
  const Socket client =
      Socket::connect({"127.0.0.1,127.0.0.2", port.endpoint().port}, Deadline::after(20s));
  CHECK(client.peer_endpoint().host == "127.0.0.2");
  CHECK(Clock::now() - begin < 10s);
}

namespace {

// While it exists, this process seems to run on a kernel without IPv6.
struct NoIpv6 {
  NoIpv6() { lacks_ipv6 = true; }
  NoIpv6(const NoIpv6&) = delete;
  NoIpv6& operator=(const NoIpv6&) = delete;
  ~NoIpv6() { lacks_ipv6 = false; }
};

}  // namespace

TEST_CASE("without IPv6, hosts are reached and served by IPv4", "[base]") {
  const NoIpv6 kernel;
  const Socket listener = Socket::listen({"", 0});
  CHECK(listener.local_endpoint().host == "0.0.0.0");
  const std::uint16_t port = listener.local_endpoint().port;
  for (const char* host : {"127.0.0.1,::1", "::1,127.0.0.1"}) {
    const Socket client = Socket::connect({host, port}, Deadline::after(5s));
    CHECK(client.peer_endpoint().host == "127.0.0.1");
  }
  CHECK_THAT(error_of([] {
               Socket::listen({"::1", 0});
             }),
             Catch::StartsWith("cannot listen on [::1]:0: Address family not supported"));
}

TEST_CASE("without IPv6, only IPv4's addresses are tried again", "[base]") {
  const NoIpv6 kernel;
  auto begin = Clock::now();
  CHECK_THAT(error_of([] {
               Socket::connect({"127.0.0.1,::1", 1}, Deadline::after(300ms));
             }),
             Catch::Contains("127.0.0.1:1: Connection refused, [::1]:1: Address family not"));
  CHECK(Clock::now() - begin >= 300ms);
  begin = Clock::now();
  CHECK_THAT(error_of([] {
               Socket::connect({"::1", 1}, Deadline::after(60s));
             }),
             Catch::StartsWith("cannot connect to [::1]:1 ([::1]:1: Address family not"));
  CHECK(Clock::now() - begin < 10s);
}

TEST_CASE("without a free descriptor, the error names the endpoint", "[base]") {
  std::string listening, connecting;
  {
    // The sanitizers need a descriptor to check what is behind a pointer, so CHECK comes later.
    const test::DescriptorLimit none(0);
    listening = error_of([] { Socket::listen({"127.0.0.1", 7}); });
    connecting = error_of([] { Socket::connect({"127.0.0.1", 7}, Deadline::after(5s)); });
  }
  CHECK(listening == "cannot listen on 127.0.0.1:7: Too many open files");
  CHECK(connecting == "cannot connect to 127.0.0.1:7: Too many open files");
}

TEST_CASE("without a loopback interface a connect to it fails at once and says so", "[base]") {
  test::check_in_child([] {
    if (!test::enter_own_network()) return test::Verdict::kImpossible;
    const std::string error = error_of([] {
      Socket::connect({"127.0.0.1", 29500}, Deadline::after(10s));
    });
    const bool says_it = error.find("the loopback interface is down") != std::string::npos;
    return says_it ? test::Verdict::kGood : test::Verdict::kBad;
  });
}
