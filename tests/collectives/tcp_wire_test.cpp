// SPDX-License-Identifier: MIT
#include "ddp/collectives/tcp/tcp_wire.h"
#include "ddp/base/net/socket.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/gate.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Contains;
using test::error_of;

namespace {

using Bytes = std::vector<std::uint8_t>;

Buffer buffer_of(Bytes& bytes) { return {bytes.data(), bytes.size(), DType::kUInt8, kCpuDevice}; }

Bytes counting(std::size_t count, std::uint8_t first) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

Deadline soon() { return Deadline::after(20s); }

// The wires of ranks 0 and 1.
struct Pair {
  explicit Pair(TcpWire::OnStall on_stall_of_one = [](std::span<const int>) {}) {
    Socket listener = Socket::listen({"127.0.0.1", 0});
    Socket calling = Socket::connect(listener.local_endpoint(), soon());
    copy_of_one = FileDescriptor(::dup(calling.fd()));
    REQUIRE(listener.wait_readable(soon()));
    std::vector<Socket> sockets(2);
    sockets[1] = std::move(*listener.accept());
    zero.emplace(std::move(sockets));
    sockets = std::vector<Socket>(2);
    sockets[0] = std::move(calling);
    one.emplace(std::move(sockets), std::move(on_stall_of_one));
  }

  FileDescriptor copy_of_one;  // of rank 1's socket, as a forked child would have it
  std::optional<TcpWire> zero, one;
};

}  // namespace

TEST_CASE("messages reach the receives of their tags, in whatever order these were started",
          "[tcp]") {
  Pair wires;
  Bytes first = counting(1, 7), second = counting(5000, 1), third = counting(3, 100);
  auto sent_first = wires.zero->send(1, 10, buffer_of(first));
  auto sent_second = wires.zero->send(1, 20, buffer_of(second));
  auto sent_third = wires.zero->send(1, 30, buffer_of(third));
  Bytes got_first(1), got_second(5000), got_third(3);
  auto receive_third = wires.one->receive(0, 30, buffer_of(got_third));
  auto receive_first = wires.one->receive(0, 10, buffer_of(got_first));
  auto receive_second = wires.one->receive(0, 20, buffer_of(got_second));
  receive_third.wait(soon());
  receive_second.wait(soon());
  receive_first.wait(soon());
  sent_first.wait(soon());
  sent_second.wait(soon());
  sent_third.wait(soon());
  CHECK(got_first == first);
  CHECK(got_second == second);
  CHECK(got_third == third);
}

TEST_CASE("both ranks can send at once what no buffer of the kernel holds", "[tcp]") {
  constexpr std::size_t kSize = std::size_t{16} << 20;
  Pair wires;
  const auto exchange = [](TcpWire& wire, int peer, std::uint8_t own) {
    Bytes ours = counting(kSize, own), theirs(kSize);
    auto receive = wire.receive(peer, 0, buffer_of(theirs));
    auto send = wire.send(peer, 0, buffer_of(ours));
    send.wait(soon());
    receive.wait(soon());
    return theirs;
  };
  auto other = std::async(std::launch::async, [&] { return exchange(*wires.one, 0, 1); });
  const Bytes of_one = exchange(*wires.zero, 1, 2);
  CHECK(of_one == counting(kSize, 1));
  CHECK(other.get() == counting(kSize, 2));
}

TEST_CASE("a wait for a message behind one that nobody receives ends with that one", "[tcp]") {
  Pair wires;
  Bytes first = counting(300, 1), second = counting(4, 50);
  auto sent_first = wires.zero->send(1, 1, buffer_of(first));
  auto sent_second = wires.zero->send(1, 2, buffer_of(second));
  Bytes got(4);
  auto receive = wires.one->receive(0, 2, buffer_of(got));
  try {
    receive.wait(soon());
    FAIL("the message came");
  } catch (const TcpWire::Unexpected& message) {
    CHECK(message.peer() == 0);
    CHECK(message.tag() == 1);
    REQUIRE(message.bytes().size() == first.size());
    CHECK(std::memcmp(message.bytes().data(), first.data(), first.size()) == 0);
  }
  receive.wait(soon());  // which now can come
  CHECK(got == second);
}

TEST_CASE("a wait for a message ends at the deadline, at abort(), and if the peer is lost",
          "[tcp]") {
  Pair wires;
  Bytes got(4);
  auto receive = wires.one->receive(0, 1, buffer_of(got));
  CHECK_THROWS_AS(receive.wait(Deadline::after(20ms)), TimeoutError);
  SECTION("abort()") {
    auto waits =
        std::async(std::launch::async, [&] { return error_of([&] { receive.wait(soon()); }); });
    std::this_thread::sleep_for(20ms);
    wires.one->abort();
    CHECK(waits.get() == "the connections were given up");
    CHECK(wires.one->is_aborted());
    CHECK_THROWS_AS(receive.wait(soon()), PeerError);
  }
  SECTION("a lost peer") {
    auto waits = std::async(std::launch::async, [&] {
      try {
        receive.wait(soon());
      } catch (const TcpWire::Lost& lost) {
        return lost.peer();
      }
      return -1;
    });
    std::this_thread::sleep_for(20ms);
    wires.zero.reset();
    CHECK(waits.get() == 0);
  }
}

// The sleep stands for the suspension: what the waiting thread does before it polls takes no time.
TEST_CASE("a suspension before a wait has begun to poll is no wait", "[tcp]") {
  Pair wires;
  Bytes got(1);
  const Buffer target = buffer_of(got);
  const Deadline deadline = wires.one->clock().after(2s);
  TcpWire::Message message = wires.one->receive(0, 7, target);
  std::this_thread::sleep_for(2100ms);
  auto waiting = std::async(std::launch::async, [&] { message.wait(deadline); });
  CHECK(waiting.wait_for(100ms) == std::future_status::timeout);
  Bytes sent = counting(1, 3);
  wires.zero->send(1, 7, buffer_of(sent)).wait(soon());
  CHECK(error_of([&] { waiting.get(); }).empty());
  CHECK(got == sent);
}

TEST_CASE("a wire tells whom it waits for once nothing moves, and when something does", "[tcp]") {
  std::vector<std::vector<int>> told;
  test::Gate tells;
  Pair wires([&](std::span<const int> peers) {
    told.emplace_back(peers.begin(), peers.end());
    tells.raise();
  });
  Bytes got(4), four = counting(4, 1);
  auto waits = std::async(std::launch::async,
                          [&] { wires.one->receive(0, 1, buffer_of(got)).wait(soon()); });
  REQUIRE(tells.wait_for(1));
  wires.zero->send(1, 1, buffer_of(four)).wait(soon());
  waits.get();
  CHECK(told == std::vector<std::vector<int>>{{0}, {}});
}

TEST_CASE("what a peer has sent can be received after it has gone", "[tcp]") {
  Pair wires;
  Bytes last = counting(100, 3), got(100);
  wires.zero->send(1, 1, buffer_of(last)).wait(soon());
  wires.zero.reset();
  wires.one->receive(0, 1, buffer_of(got)).wait(soon());
  CHECK(got == last);
}

TEST_CASE("a peer notices the end of a wire although a forked child has its sockets", "[tcp]") {
  Pair wires;
  wires.one.reset();
  Bytes got(1);
  CHECK_THROWS_AS(wires.zero->receive(1, 1, buffer_of(got)).wait(soon()), TcpWire::Lost);
}

TEST_CASE("a message of another size than expected is an error", "[tcp]") {
  Pair wires;
  Bytes sent = counting(100, 1), got(99);
  auto send = wires.zero->send(1, 1, buffer_of(sent));
  auto receive = wires.one->receive(0, 1, buffer_of(got));
  CHECK_THAT(error_of([&] { receive.wait(soon()); }),
             Contains("a message of 100 bytes came where 99 were expected"));
}

TEST_CASE("after its end nothing touches the memory of a message that had not ended", "[tcp]") {
  Pair wires;
  Bytes got(8, 0xEE);
  { const auto receive = wires.one->receive(0, 1, buffer_of(got)); }
  Bytes sent = counting(8, 1), other(8);
  wires.zero->send(1, 1, buffer_of(sent)).wait(soon());
  // The connection is not usable any more, since half a message may have passed.
  auto receive = wires.one->receive(0, 2, buffer_of(other));
  CHECK_THROWS_AS(receive.wait(Deadline::after(50ms)), TimeoutError);
  CHECK(got == Bytes(8, 0xEE));
}
