// SPDX-License-Identifier: MIT
//
// The server of a store: its bytes on the wire, bad input, and limits of memory and descriptors.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/wire.h"
#include "support/becomes_true.h"
#include "support/descriptor_limit.h"
#include "support/hex.h"
#include "support/loopback.h"
#include "support/refused_memory.h"
#include "support/run_ranks.h"
#include "support/sanitizers.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::becomes_true;
using test::error_of;
using test::hex;
using test::kLoopback;

namespace {

// A client that exchanges raw bytes with a server.
class RawClient {
 public:
  explicit RawClient(const Endpoint& endpoint)
      : socket_(Socket::connect(endpoint, Deadline::after(5s))) {}

  RawClient& validate() {
    std::string bytes;
    wire::Writer(bytes).opcode(wire::Opcode::kValidate).integer(wire::kMagic);
    return send(bytes);
  }
  RawClient& send(std::string_view bytes) {
    socket_.send_all(std::as_bytes(std::span(bytes)), Deadline::after(5s));
    return *this;
  }
  std::string receive(std::size_t count) {
    std::string bytes(count, '\0');
    socket_.receive_all(std::as_writable_bytes(std::span(bytes)), Deadline::after(5s));
    return bytes;
  }
  // True once the server has closed the connection.
  bool is_dropped() {
    std::array<std::byte, 256> ignored;
    const Deadline deadline = Deadline::after(5s);
    try {
      while (socket_.wait_readable(deadline)) socket_.receive_some(ignored);
    } catch (const NetworkError&) {
      return true;
    }
    return false;
  }

 private:
  Socket socket_;
};

std::string ping(std::uint32_t nonce) {
  std::string bytes;
  wire::Writer(bytes).opcode(wire::Opcode::kPing).integer(nonce);
  return bytes;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// The memory of this process.
std::size_t resident_bytes() {
  std::size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Used by accept4() below.
std::atomic<bool> has_descriptors = true;
std::atomic<bool> has_memory = true;

std::string wait_for_key(std::string_view key) {
  std::string bytes;
  wire::Writer(bytes).opcode(wire::Opcode::kWait).integer(std::uint64_t{1}).bytes(key);
  return bytes;
}

}  // namespace

// Replaces the C library's function. Using up the real descriptors would take them from the
// sanitizers, too, which need some.
extern "C" int accept4(int listener, sockaddr* address, socklen_t* length, int flags) {
  if (!has_descriptors) {
    errno = EMFILE;
    return -1;
  }
  if (!has_memory) throw std::bad_alloc();
  return static_cast<int>(::syscall(SYS_accept4, listener, address, length, flags));
}

TEST_CASE("the bytes on the wire are PyTorch's", "[store]") {
  TcpServer server(kLoopback);
  RawClient client(server.endpoint());
  // Captured from PyTorch 2.6 and 2.14: validate, ping, set k v, get k (wait + get), add c -7,
  // check k zz, cancel_wait, num_keys, delete k.
  client.send(hex("00cef7853c"));
  client.send(hex("0d78563412"));
  CHECK(client.receive(4) == hex("78563412"));
  client.send(hex("0102000000000000002f6b010000000000000076"));
  client.send(hex("06010000000000000002000000000000002f6b"));
  CHECK(client.receive(1) == hex("00"));
  client.send(hex("0302000000000000002f6b"));
  CHECK(client.receive(9) == hex("010000000000000076"));
  client.send(hex("0402000000000000002f63f9ffffffffffffff"));
  CHECK(client.receive(8) == hex("f9ffffffffffffff"));
  client.send(hex("05020000000000000002000000000000002f6b03000000000000002f7a7a"));
  CHECK(client.receive(1) == hex("01"));
  client.send(hex("0c"));
  CHECK(client.receive(1) == hex("01"));
  client.send(hex("07"));
  CHECK(client.receive(8) == hex("0200000000000000"));
  client.send(hex("0802000000000000002f6b"));
  CHECK(client.receive(8) == hex("0100000000000000"));
}

TEST_CASE("a waiting client can ping, and is answered when the key comes", "[store]") {
  TcpServer server(kLoopback);
  RawClient client(server.endpoint());
  client.validate().send(hex("06010000000000000002000000000000002f6b")).send(ping(7));
  CHECK(client.receive(4) == hex("07000000"));
  TcpStore(server.endpoint()).set("k", "v");
  CHECK(client.receive(1) == hex("00"));
}

TEST_CASE("a server that ends first serves those who are still connected", "[store]") {
  auto server = std::make_unique<TcpServer>(kLoopback, TcpServerOptions{.farewell = 60s});
  auto client = std::make_unique<TcpStore>(server->endpoint());
  client->set("cause", "rank 1 died");
  auto end = std::async(std::launch::async, [&] { server = nullptr; });
  CHECK(end.wait_for(100ms) == std::future_status::timeout);
  CHECK(client->get("cause") == "rank 1 died");
  client = nullptr;
  CHECK(end.wait_for(30s) == std::future_status::ready);
}

TEST_CASE("a server waits for its clients only as long as it was told", "[store]") {
  auto server = std::make_unique<TcpServer>(kLoopback, TcpServerOptions{.farewell = 100ms});
  const TcpStore client(server->endpoint());
  auto end = std::async(std::launch::async, [&] { server = nullptr; });
  CHECK(end.wait_for(30s) == std::future_status::ready);
}

TEST_CASE("bad input closes the connection of its client, and no other", "[store]") {
  TcpServer server(kLoopback);
  TcpStore bystander(server.endpoint());
  const auto drops = [&](const std::string& bytes) {
    RawClient client(server.endpoint());
    client.send(bytes);
    return client.is_dropped();
  };
  const std::string valid = hex("00cef7853c");
  CHECK(drops("GET / HTTP/1.1\r\n\r\n"));
  CHECK(drops(hex("0000000000")));
  CHECK(drops(ping(1)));                                              // no validation before
  CHECK(drops(hex("01")));                                            // no validation follows
  CHECK(drops(valid + valid));                                        // validated twice
  CHECK(drops(valid + hex("7f")));                                    // unknown opcode
  CHECK(drops(valid + hex("03ffffffffffffffff")));                    // absurd key length
  CHECK(drops(valid + hex("0101000000000000006bffffffffffffff7f")));  // absurd value length
  CHECK(drops(valid + hex("06ffffffffffffffff")));                    // absurd key count
  bystander.set("text", "not a number");
  std::string add;
  wire::Writer(add).opcode(wire::Opcode::kAdd).user_key("text").integer(std::int64_t{1});
  CHECK(drops(valid + add));
  CHECK(bystander.get("text") == "not a number");
  TcpStore mistaken(server.endpoint());
  CHECK_THROWS_WITH(mistaken.add("text", 1), Catch::Contains("add(\"text\"): the peer closed") &&
                                                 Catch::Contains("the value is not a number"));
}

TEST_CASE("an incomplete request does not stall other clients", "[store]") {
  TcpServer server(kLoopback);
  RawClient slow(server.endpoint());
  slow.validate().send(hex("01020000000000"));
  TcpStore other(server.endpoint());
  other.set("a", "b");
  CHECK(other.get("a") == "b");
  slow.send(hex("00002f6b010000000000000076"));
  CHECK(other.get("k") == "v");
}

TEST_CASE("a request may arrive in single bytes, or many in one packet", "[store]") {
  TcpServer server(kLoopback);
  std::string requests = hex("00cef7853c");
  for (std::uint32_t i = 0; i < 50; ++i) requests += ping(i);
  RawClient packed(server.endpoint());
  packed.send(requests);
  RawClient trickled(server.endpoint());
  for (const char byte : requests) trickled.send(std::string_view(&byte, 1));
  CHECK(packed.receive(200) == trickled.receive(200));
}

TEST_CASE("large values survive, too large ones are refused", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  const std::string large(20 << 20, 'x');
  store.set("large", large);
  CHECK(store.get("large") == large);
  std::string huge;
  wire::Writer(huge).opcode(wire::Opcode::kSet).user_key("huge");
  wire::Writer(huge).integer(wire::kMaxValueBytes + 1);
  CHECK(RawClient(server.endpoint()).validate().send(huge).is_dropped());
}

TEST_CASE("a client that asks but does not read its replies is dropped", "[store]") {
  TcpServer server(kLoopback);
  TcpStore bystander(server.endpoint());
  bystander.set("large", std::string(60 << 20, 'x'));
  REQUIRE(bystander.has("large"));  // needed since set() is not acknowledged
  std::string get;
  wire::Writer(get).opcode(wire::Opcode::kGet).user_key("large");
  RawClient greedy(server.endpoint());
  greedy.validate();
  const std::string gone = error_of([&] {
    for (int i = 0; i < 6; ++i) {
      greedy.send(get);
      // The server answers the ping after it has read what was sent before it.
      RawClient(server.endpoint()).validate().send(ping(1)).receive(4);
    }
    throw NetworkError(greedy.is_dropped() ? "dropped" : "still served");
  });
  CHECK(gone != "still served");
  CHECK(bystander.has("large"));
}

TEST_CASE("a reply too long to be held is refused", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  store.set("large", std::string(60 << 20, 'x'));
  const std::vector<std::string> keys(50, "large");  // 3 GB
  CHECK_FALSE(error_of([&] { (void)store.multi_get(keys, 10s); }).empty());
  CHECK(TcpStore(server.endpoint()).has("large"));
}

TEST_CASE("an unfinished request is not parsed again before it can be complete", "[store]") {
  std::string bytes;
  wire::Writer writer(bytes);
  writer.opcode(wire::Opcode::kWait).integer(std::uint64_t{1000});
  wire::Request request;
  const auto parse = [&] { return wire::parse_request(std::as_bytes(std::span(bytes)), request); };
  CHECK(parse().status == wire::ParseStatus::kIncomplete);
  CHECK(parse().size_bytes == 1 + 8 + 1000 * 8);  // at least a thousand lengths
  for (int i = 0; i < 1000; ++i) writer.bytes("abc");
  CHECK(parse().status == wire::ParseStatus::kComplete);
  CHECK(request.keys.size() == 1000);
}

TEST_CASE("a thousand connections work at once, whatever the soft limit of open files", "[store]") {
  const test::DescriptorLimit limit(256);
  const TcpServer server(kLoopback);
  std::vector<std::unique_ptr<TcpStore>> stores;
  for (int i = 0; i < 1000; ++i) stores.push_back(std::make_unique<TcpStore>(server.endpoint()));
  std::int64_t count = 0;
  for (const auto& store : stores) count = store->add("count", 1);
  CHECK(count == 1000);
}

TEST_CASE("a server without free descriptors logs this now and then, and recovers", "[store]") {
  const TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s);
  const test::StderrCapture log;
  has_descriptors = false;
  const Socket waiting = Socket::connect(server.endpoint(), Deadline::after(5s));
  for (int i = 0; i < 1000; ++i) store.add("busy", 1);
  has_descriptors = true;
  CHECK_NOTHROW(TcpStore(server.endpoint(), 5s).set("k", "v"));
  const std::string text = log.text();
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains("cannot accept a connection: Too many open files"));
  CHECK(std::ranges::count(text, '\n') <= 2);
}

TEST_CASE("a server knows from where a connection came that was reset before it was accepted",
          "[store]") {
  const TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s);
  const test::StderrCapture log;
  has_descriptors = false;
  Socket client = Socket::connect(server.endpoint(), Deadline::after(5s));
  for (int i = 0; i < 1000; ++i) store.add("busy", 1);
  const std::string from = "dropped the connection from " + to_string(client.local_endpoint());
  client.abandon();
  has_descriptors = true;
  CHECK(becomes_true([&] { return log.text().find("dropped") != std::string::npos; }));
  CHECK_THAT(log.text(), Catch::Contains(from + ": "));
}

TEST_CASE("a server without free descriptors drops connections that have said nothing", "[store]") {
  const TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s);
  const test::StderrCapture log;
  const Socket silent = Socket::connect(server.endpoint(), Deadline::after(5s));
  store.add("busy", 1);
  has_descriptors = false;
  const Socket waiting = Socket::connect(server.endpoint(), Deadline::after(5s));
  const bool is_dropped = silent.wait_readable(Deadline::after(25s));
  has_descriptors = true;
  CHECK(is_dropped);
  CHECK(store.add("busy", 1) == 2);
  CHECK_THAT(log.text(), Catch::Contains("it has said nothing for 5 s"));
}

TEST_CASE("a server that lacks memory for a connection goes on and accepts it later", "[store]") {
  const TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s);
  const test::StderrCapture log;
  has_memory = false;
  const Socket waiting = Socket::connect(server.endpoint(), Deadline::after(5s));
  for (int i = 0; i < 1000; ++i) store.add("busy", 1);
  has_memory = true;
  CHECK_NOTHROW(TcpStore(server.endpoint(), 5s).set("k", "v"));
  CHECK_THAT(log.text(), Catch::Contains("bad_alloc"));
}

TEST_CASE("a server that lacks memory to drop a client drops it later", "[store]") {
  const TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s);
  auto first = std::make_unique<RawClient>(server.endpoint());
  RawClient second(server.endpoint());
  first->validate().send(wait_for_key("/queue") + ping(1));
  CHECK(first->receive(4) == hex("01000000"));
  second.validate().send(wait_for_key("/queue") + ping(2));
  CHECK(second.receive(4) == hex("02000000"));
  store.queue_push("queue", "element");
  CHECK(first->receive(1) == hex("00"));  // it was woken
  {
    const test::RefusedMemory memory("ddp-store");
    first.reset();
    CHECK(test::becomes_true([&] { return memory.refusals() >= 10; }));
  }
  CHECK(second.receive(1) == hex("00"));  // for the element
}

// Anyone who reaches the port can connect as often as they like.
TEST_CASE("many strangers fill neither the log nor the server", "[store]") {
  const test::StderrCapture log;
  {
    const TcpServer server(kLoopback);
    TcpStore store(server.endpoint(), 5s);
    for (int i = 0; i < 200; ++i) {
      CHECK(RawClient(server.endpoint()).send("GET / HTTP/1.1\r\n\r\n").is_dropped());
      store.add("busy", 1);
    }
    CHECK(store.add("busy", 0) == 200);
    const std::string text = log.text();
    CAPTURE(text);
    CHECK_THAT(text, Catch::Contains("it is not a store client"));
    CHECK(std::ranges::count(text, '\n') <= 5);  // a line in 10 s
  }
  const std::string text = log.text();
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains(" more such warnings since the last one that is shown)"));
  CHECK(std::ranges::count(text, '\n') <= 6);
}

TEST_CASE("junk from ten thousand connections takes no memory and no descriptors", "[store]") {
  const test::StderrCapture log;  // of warnings
  const TcpServer server(kLoopback);
  TcpStore bystander(server.endpoint(), 60s);
  std::minstd_rand random;
  const auto random_bytes = [&](std::size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() >> 8U);
    return bytes;
  };
  const std::string valid = hex("00cef7853c");
  const std::size_t before = resident_bytes();
  const std::ptrdiff_t descriptors = open_descriptors();
  std::size_t most = before;
  for (int round = 0; round < (test::kIsSanitized ? 10 : 100); ++round) {
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) {
      for (const std::string& junk : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"),
                                      random_bytes(50), valid + random_bytes(50),
                                      // announces a value of 64 MiB, which does not come
                                      valid + hex("0102000000000000002f6b0000000400000000")}) {
        clients.emplace_back(server.endpoint()).send(junk);
      }
    }
    CHECK(bystander.add("rounds", 1) == round + 1);
    most = std::max(most, resident_bytes());
  }
  for (const std::string& begin : {std::string(), valid}) {
    RawClient client(server.endpoint());
    (void)error_of([&] { client.send(begin + random_bytes(std::size_t{1} << 20)); });
    CHECK(client.is_dropped());
  }
  const Deadline deadline = Deadline::after(10s);
  do {  // the server closes a connection after the client has
    CHECK(bystander.add("rounds", 0) > 0);
  } while (open_descriptors() != descriptors && !deadline.passed());
  CHECK(open_descriptors() == descriptors);
  CHECK(bystander.num_keys() == 1);
  most = std::max(most, resident_bytes());
  if (!test::kIsSanitized) CHECK(most < before + (std::size_t{10} << 20));
}

TEST_CASE("a taken port is an error that names it", "[store]") {
  TcpServer server(kLoopback);
  const std::string error = error_of([&] { TcpServer second(server.endpoint()); });
  CHECK(error == "cannot listen on " + to_string(server.endpoint()) + ": Address already in use");
}

TEST_CASE("a server listens on all addresses of a list that are this host's", "[store]") {
  const std::uint16_t port = TcpServer(kLoopback).endpoint().port;
  const std::vector<Endpoint> own = {{"127.0.0.1", port}, {"127.0.0.2", port}};
  const Endpoint anothers{"192.0.2.77", port};
  TcpServer server(std::vector{anothers, own[0], own[1]});
  CHECK(server.endpoints() == own);
  TcpStore(own[0]).set("k", "v");
  CHECK(TcpStore(own[1]).get("k") == "v");
  CHECK_THAT(error_of([&] { TcpServer second(std::vector{own[1]}); }),
             Catch::Contains("already in use"));
  CHECK_THAT(error_of([&] {
               TcpServer second(std::vector{anothers, anothers});
             }),
             Catch::Contains("cannot listen on 192.0.2.77:") && Catch::Contains("Cannot assign"));
}

TEST_CASE("a server listens on exactly the address asked for", "[store]") {
  TcpServer v4(kLoopback);
  CHECK(v4.endpoint().host == "127.0.0.1");
  TcpServer v6({"::1", 0});
  CHECK(v6.endpoint().host == "::1");
  TcpStore(v6.endpoint()).set("k", "v");
}
