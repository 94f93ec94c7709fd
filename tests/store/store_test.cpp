// SPDX-License-Identifier: MIT
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <random>
#include <thread>

#include "ddp/base/error.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/wire.h"
#include "support/descriptor_limit.h"
#include "support/run_ranks.h"
#include "support/sanitizers.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::run_ranks;

namespace {

const Endpoint kLoopback{"127.0.0.1", 0};

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

std::string hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// The memory of this process.
std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

std::size_t resident_bytes() {
  std::size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void check_common_behaviour(Store& store) {
  store.set("k", "v");
  CHECK(store.get("k") == "v");
  CHECK(store.has("k"));
  CHECK_FALSE(store.has("missing"));
  CHECK(store.add("counter", 5) == 5);
  CHECK(store.add("counter", -7) == -2);
  CHECK(store.get("counter") == "-2");
  store.set("highest", "9223372036854775807");
  CHECK(store.add("highest", 1) == std::numeric_limits<std::int64_t>::min());  // it wraps around
  store.set("sloppy", " 12abc");
  CHECK(store.add("sloppy", 1) == 13);
  CHECK(store.compare_set("c", "x", "y") == "x");  // for a missing key, as PyTorch's server
  CHECK(store.compare_set("c", "", "y") == "y");
  CHECK(store.compare_set("c", "wrong", "z") == "y");
  CHECK(store.compare_set("c", "y", "z") == "z");
  CHECK(store.delete_key("c"));
  CHECK_FALSE(store.delete_key("c"));
  const std::string binary("\0\xff\n", 3);
  store.set("binary", binary);
  CHECK(store.get("binary") == binary);
  const std::string error = error_of([&] { (void)store.get("never", 20ms); });
  CHECK(error.find("never\"") != std::string::npos);
  CHECK(error.find("timed out after 20 ms") != std::string::npos);
  CHECK(store.get("k") == "v");  // the connection survives a timeout
  CHECK(store.get("k", Timeout(0)) == "v");
  CHECK(store.find("k") == "v");
  CHECK(store.find("binary") == binary);
  CHECK_FALSE(store.find("never").has_value());
  CHECK_FALSE(store.has("never"));
  CHECK(store.wait_for("k", 20ms));
  CHECK_FALSE(store.wait_for("never", 20ms));
  CHECK_FALSE(store.wait_for(std::vector<std::string>{"k", "never"}, 20ms));
  CHECK(store.wait_for(std::vector<std::string>{"k", "counter"}, Timeout(0)));
  store.set("text", "");
  CHECK(store.find("text") == "");
  CHECK_THROWS_AS(store.add("text", 1), NetworkError);
}

// Used by accept4() below.
std::atomic<bool> has_descriptors = true;
std::atomic<bool> has_memory = true;

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

TEST_CASE("all kinds of store behave alike", "[store]") {
  SECTION("HashStore") {
    HashStore store;
    check_common_behaviour(store);
  }
  SECTION("TcpStore") {
    TcpServer server(kLoopback);
    TcpStore store(server.endpoint());
    check_common_behaviour(store);
  }
  SECTION("PrefixStore") {
    PrefixStore store("job", std::make_shared<HashStore>());
    check_common_behaviour(store);
  }
}

TEST_CASE("a key of a HashStore that comes and goes is read while it is there", "[store]") {
  HashStore store;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done.load()) {
      store.set("k", "v");
      store.delete_key("k");
    }
  });
  std::string error;
  const Deadline deadline = Deadline::after(2s);
  while (error.empty() && !deadline.passed()) {
    error = error_of([&] { (void)store.get("k", 10s); });
  }
  done.store(true);
  other.join();
  CHECK(error.empty());
}

TEST_CASE("the keys of a prefix store begin with its prefix", "[store]") {
  auto plain = std::make_shared<HashStore>();
  PrefixStore inner("a", plain);
  inner.set("x", "1");
  CHECK(plain->get("a/x") == "1");
  CHECK(inner.clone()->get("x") == "1");
}

TEST_CASE("the protocol's other calls work", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  store.append("log", "ab");
  store.append("log", "cd");
  CHECK(store.get("log") == "abcd");
  const std::pair<std::string, std::string> entries[] = {{"x", "1"}, {"y", "22"}};
  store.multi_set(entries);
  const std::string keys[] = {"y", "x", "y"};
  CHECK(store.multi_get(keys, 1s) == std::vector<std::string>{"22", "1", "22"});
  CHECK(store.num_keys() == 3);
  CHECK(store.list_keys() == std::vector<std::string>{"log", "x", "y"});
  store.queue_push("q", "first");
  store.queue_push("q", "second");
  CHECK(store.queue_length("q") == 2);
  CHECK(store.queue_pop("q", 1s) == "first");
  CHECK(store.queue_pop("q", Timeout(0)) == "second");
  CHECK(store.queue_pop("q", Timeout(0)) == std::nullopt);
  CHECK(error_of([&] { (void)store.queue_pop("q", 20ms); }).find("timed out") != std::string::npos);
  store.barrier("alone", 1, 1s);
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

TEST_CASE("a client refuses values that a server would refuse", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  CHECK_THROWS_AS(store.set("huge", std::string(wire::kMaxValueBytes + 1, 'x')),
                  std::invalid_argument);
  const std::string largest(wire::kMaxValueBytes, 'x');
  CHECK_THROWS_AS(store.compare_set("huge", largest + 'x', ""), std::invalid_argument);
  CHECK_THROWS_AS(store.compare_set("huge", largest, largest), std::invalid_argument);
  store.set("k", "v");
  CHECK(store.get("k") == "v");  // the connection still works
}

TEST_CASE("a client refuses keys, numbers of keys and requests that a server would refuse",
          "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  const std::string longest(wire::kMaxKeyBytes - 1, 'k');  // a slash is put before it
  store.set(longest, "v");
  CHECK(store.get(longest) == "v");
  CHECK_THROWS_AS(store.set(longest + 'k', "v"), std::invalid_argument);
  CHECK_THROWS_AS(store.get(longest + 'k', 1s), std::invalid_argument);
  CHECK_THROWS_AS(
      store.multi_set(std::vector<std::pair<std::string, std::string>>{{longest + 'k', "v"}}),
      std::invalid_argument);
  const std::vector<std::string> many(wire::kMaxKeys + 1, "k");
  CHECK_THROWS_AS(store.wait(many, 1s), std::invalid_argument);
  CHECK_THROWS_AS(store.check(many), std::invalid_argument);
  const std::vector<std::string> heavy(wire::kMaxRequestBytes / wire::kMaxKeyBytes, longest);
  CHECK_THROWS_AS(store.wait(heavy, 1s), std::invalid_argument);
  CHECK_THROWS_AS(store.check(heavy), std::invalid_argument);
  CHECK_THROWS_AS(store.multi_get(heavy, 1s), std::invalid_argument);
  const std::vector<std::pair<std::string, std::string>> large(
      2, {"k", std::string(wire::kMaxValueBytes, 'x')});
  CHECK_THROWS_AS(store.multi_set(large), std::invalid_argument);
  store.set("k", "v");
  CHECK(store.get("k") == "v");  // the connection still works
}

TEST_CASE("a wait that ends while it is cancelled leaves the connection usable", "[store]") {
  Socket listener = Socket::listen(kLoopback);
  bool patient = false;
  std::thread server([&] {
    while (!listener.wait_readable(Deadline::after(5s))) continue;
    Socket client = std::move(*listener.accept());
    const auto take = [&](std::size_t count) {
      std::string bytes(count, '\0');
      client.receive_all(std::as_writable_bytes(std::span(bytes)), Deadline::after(5s));
      return bytes;
    };
    const auto send = [&](const std::string& bytes) {
      client.send_all(std::as_bytes(std::span(bytes)), Deadline::after(5s));
    };
    take(5);                  // VALIDATE
    send(take(5).substr(1));  // PING
    take(1 + 8 + 8 + 2);      // WAIT for "/k"
    take(1);                  // CANCEL_WAIT, since we did not answer in time …
    send(hex("0001"));        // … but only now: STOP_WAITING, then WAIT_CANCELED
    take(1 + 8 + 2);          // GET "/k"
    patient = !client.wait_readable(Deadline::after(50ms));  // although its timeout is 20 ms
    if (!patient) return;
    send(hex("010000000000000076"));
    take(1);  // GETNUMKEYS
    send(hex("0700000000000000"));
  });
  TcpStore store(listener.local_endpoint(), 5s);
  std::string value;
  const std::string error = error_of([&] { value = store.get("k", 20ms); });
  const std::string later_error = error_of([&] { CHECK(store.num_keys() == 7); });
  server.join();
  CHECK(patient);
  CHECK(error.empty());
  CHECK(value == "v");
  CHECK(later_error.empty());
}

// The server is like a launcher that is stopped by Ctrl-Z and continued.
TEST_CASE("a server that answers too late is asked again over a new connection", "[store]") {
  Socket listener = Socket::listen(kLoopback);
  std::thread server([&] {
    const auto greet = [&] {
      while (!listener.wait_readable(Deadline::after(5s))) continue;
      Socket client = std::move(*listener.accept());
      std::array<std::byte, 10> greeting;  // VALIDATE, PING
      client.receive_all(greeting, Deadline::after(5s));
      client.send_all(std::span(greeting).subspan(6), Deadline::after(5s));
      return client;
    };
    const Socket silent = greet();
    Socket client = greet();
    std::array<std::byte, 1> request;  // GETNUMKEYS
    client.receive_all(request, Deadline::after(5s));
    const std::string seven = hex("0700000000000000");
    client.send_all(std::as_bytes(std::span(seven)), Deadline::after(5s));
  });
  TcpStore store(listener.local_endpoint(), 2s);
  const std::string error = error_of([&] { (void)store.num_keys(); });
  const std::string later_error = error_of([&] { CHECK(store.num_keys() == 7); });
  server.join();
  CHECK(error.find("timed out after 2000 ms") != std::string::npos);
  CHECK(later_error.empty());
}

TEST_CASE("an endpoint behind which another program listens is recognised", "[store]") {
  Socket listener = Socket::listen(kLoopback);
  std::thread server([&] {
    while (!listener.wait_readable(Deadline::after(5s))) continue;
    Socket client = std::move(*listener.accept());
    const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    client.send_all(std::as_bytes(std::span(answer)), Deadline::after(5s));
    // Until the other end closes: the answer would be lost if there were something unread here.
    (void)error_of([&] {
      for (std::array<std::byte, 1> byte;;) client.receive_all(byte, Deadline::after(5s));
    });
  });
  const std::string error = error_of([&] { const TcpStore store(listener.local_endpoint(), 5s); });
  server.join();
  CHECK_THAT(error, Catch::Contains("answered PING wrongly right after connecting: another program "
                                    "may listen there, or a store of PyTorch 1.x"));
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

TEST_CASE("64 clients mixing all operations agree in the end", "[store]") {
  TcpServer server(kLoopback);
  constexpr int kClients = 64;
  constexpr int kRounds = 30;
  run_ranks(kClients, [&](int rank) {
    TcpStore store(server.endpoint(), 60s, rank);
    std::mt19937 random(static_cast<std::uint32_t>(rank));
    const std::string own = "own/" + std::to_string(rank);
    for (int round = 0; round < kRounds; ++round) {
      store.set(own, std::to_string(round));
      store.add("total", 1);
      store.append("appended", "x");
      store.queue_push("queue", std::to_string(rank));
      expect(store.queue_pop("queue", 60s).has_value(), "an element for everyone");
      expect(store.get(own) == std::to_string(round), "its own value");
      const std::string peer = "own/" + std::to_string(random() % kClients);
      (void)store.get(peer);
      const std::string keys[] = {own, "total"};
      expect(store.check(keys), "both keys");
      store.barrier("round/" + std::to_string(round), kClients, 60s);
    }
  });
  TcpStore store(server.endpoint());
  CHECK(store.add("total", 0) == kClients * kRounds);
  CHECK(store.get("appended").size() == kClients * kRounds);
  CHECK(store.queue_length("queue") == 0);
}

TEST_CASE("a clone waits while the original works", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  const auto clone = store.clone();
  std::string seen;
  std::thread waiter([&] { seen = clone->get("late", 10s); });
  store.set("early", "1");
  store.set("late", "2");
  waiter.join();
  CHECK(seen == "2");
}

TEST_CASE("an operation that queues behind another thread's wait has a deadline", "[store]") {
  const TcpServer server({"127.0.0.1", 0});
  TcpStore store(server.endpoint(), 1s);
  const std::vector<std::string> keys{"late"};
  std::thread waiter([&] { store.wait(keys, 20s); });
  std::string error;
  for (const Deadline deadline = Deadline::after(10s); error.empty() && !deadline.passed();) {
    error = error_of([&] { store.add("counter", 1); });  // succeeds until the waiter has arrived
  }
  store.clone(5s)->set("late", "");
  waiter.join();
  CHECK_THAT(error, Catch::StartsWith("[tcp_store] add(\"counter\"): timed out after 1000 ms while "
                                      "another operation held the connection"));
  CHECK(store.add("counter", 1) >= 1);
}

TEST_CASE("an error names key, rank, endpoint and milliseconds", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s, 2);
  CHECK(error_of([&] { (void)store.get("nccl_id", 30ms); }) ==
        "[tcp_store] get(\"nccl_id\") on rank 2: timed out after 30 ms (" +
            to_string(server.endpoint()) + ")");
}

TEST_CASE("without a server, the error comes in time and lists the addresses tried", "[store]") {
  Endpoint free_endpoint;
  {
    TcpServer server(kLoopback);
    free_endpoint = server.endpoint();
  }
  const std::string error = error_of([&] { TcpStore store(free_endpoint, 100ms); });
  const std::string address = to_string(free_endpoint);
  CHECK_THAT(error, Catch::EndsWith("cannot connect to " + address + " (" + address +
                                    ": Connection refused)"));
}

TEST_CASE("a taken port is an error that names it", "[store]") {
  TcpServer server(kLoopback);
  const std::string error = error_of([&] { TcpServer second(server.endpoint()); });
  CHECK(error == "cannot listen on " + to_string(server.endpoint()) + ": Address already in use");
}

TEST_CASE("a server listens on exactly the address asked for", "[store]") {
  TcpServer v4(kLoopback);
  CHECK(v4.endpoint().host == "127.0.0.1");
  TcpServer v6({"::1", 0});
  CHECK(v6.endpoint().host == "::1");
  TcpStore(v6.endpoint()).set("k", "v");
}

TEST_CASE("clients of a server that goes away get an error, not a hang", "[store]") {
  auto server = std::make_unique<TcpServer>(kLoopback);
  TcpStore store(server->endpoint());
  store.set("k", "v");
  CHECK(store.has("k"));  // nothing is in transit: the server closes, it does not reset
  server.reset();
  CHECK(error_of([&] { (void)store.get("k"); }).find("the peer closed") != std::string::npos);
}

TEST_CASE("a client's own address is known while it waits, and when the connection is lost",
          "[store]") {
  auto server = std::make_unique<TcpServer>(kLoopback);
  TcpStore store(server->endpoint());
  std::thread waiter([&] { (void)error_of([&] { (void)store.get("never", 10s); }); });
  for (int i = 0; i < 1000; ++i) {
    if (i == 500) server.reset();
    if (store.local_address() != "127.0.0.1") break;
  }
  waiter.join();
  CHECK(store.local_address() == "127.0.0.1");
}
