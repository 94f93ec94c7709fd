// SPDX-License-Identifier: MIT
//
// Our half of scripts/test_torch_interop.sh; PyTorch's half is the Python in this folder.
//   store_interop server               serves on a free port, which it prints; ends when its stdin
//                                      closes
//   store_interop client PORT [libuv]  tries every operation on the server at PORT; with "libuv"
//                                      also those that only PyTorch's libuv server has
//   store_interop meet PORT RANK N     is one of N ranks, ours or PyTorch's, that meet on that
//                                      server
// client and meet print "ok WHAT" or "FAILED WHAT: WHY" for each check.
#include <algorithm>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"

namespace {

using ddp::Endpoint;
using ddp::PrefixStore;
using ddp::TcpServer;
using ddp::TcpStore;
using ddp::Timeout;
using namespace std::chrono_literals;

constexpr Timeout kTimeout = 60s;

struct Check {
  const char* name;
  std::function<void(TcpStore&)> body;
};

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("expected " + what);
}

bool report(const std::string& name, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    std::cout << "FAILED " << name << ": " << ddp::describe(error) << std::endl;
    return false;
  }
  std::cout << "ok " << name << std::endl;
  return true;
}

std::shared_ptr<TcpStore> connect(std::uint16_t port, int rank = -1) {
  return std::make_shared<TcpStore>(Endpoint{"127.0.0.1", port}, kTimeout, rank);
}

std::string all_byte_values() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

void set_and_get(TcpStore& store) {
  store.set("set", "first");
  store.set("set", "second");
  expect(store.get("set") == "second", "the value set last");
  store.set("empty", "");
  expect(store.get("empty").empty(), "an empty value");
  store.set("binary", all_byte_values());
  expect(store.get("binary") == all_byte_values(), "all 256 byte values");
}

void large_value(TcpStore& store, std::size_t size_bytes) {
  std::string large(size_bytes, 'x');
  large.back() = 'y';
  store.set("large", large);
  expect(store.get("large") == large, "all of it back");
}

void add(TcpStore& store) {
  expect(store.add("counter", 5) == 5, "5");
  expect(store.add("counter", -7) == -2, "-2");
  expect(store.get("counter") == "-2", "decimal text");
  store.set("text number", "41");
  expect(store.add("text number", 1) == 42, "42");
}

void compare_set(TcpStore& store) {
  expect(store.compare_set("compare", "x", "y") == "x", "x: missing, not empty expected");
  expect(!store.has("compare"), "no key yet");
  expect(store.compare_set("compare", "", "y") == "y", "y: missing, empty expected");
  expect(store.compare_set("compare", "wrong", "z") == "y", "y: another value");
  expect(store.compare_set("compare", "y", "z") == "z", "z: the right value");
}

void check(TcpStore& store) {
  store.set("checked", "1");
  const std::string both[] = {"checked", "missing"};
  expect(store.check(std::span(both).first(1)), "true for a key that exists");
  expect(!store.check(both), "false if one is missing");
}

void wait(TcpStore& store) {
  const auto setter = store.clone();
  const std::string keys[] = {"late 1", "late 2"};
  std::jthread thread([&] {
    setter->set("late 1", "1");
    setter->add("late 2", 1);
  });
  store.wait(keys, kTimeout);
  thread.join();
  store.wait(keys, kTimeout);  // returns at once
}

void wait_timeout(TcpStore& store) {
  for (int i = 0; i < 3; ++i) {
    const std::string keys[] = {"never"};
    bool timed_out = false;
    try {
      store.wait(keys, 30ms);
    } catch (const ddp::TimeoutError&) {
      timed_out = true;
    }
    expect(timed_out, "a timeout");
    store.set("after timeout", std::to_string(i));
    expect(store.get("after timeout") == std::to_string(i), "a connection in step");
  }
}

void delete_key(TcpStore& store) {
  store.set("doomed", "1");
  expect(store.delete_key("doomed"), "true");
  expect(!store.delete_key("doomed"), "false the second time");
  expect(!store.has("doomed"), "the key gone");
}

void append(TcpStore& store) {
  store.append("log", "ab");
  store.append("log", "cd");
  expect(store.get("log") == "abcd", "abcd");
}

void multi_get_and_multi_set(TcpStore& store) {
  const std::pair<std::string, std::string> entries[] = {{"m1", "1"}, {"m2", all_byte_values()}};
  store.multi_set(entries);
  const std::string keys[] = {"m2", "m1", "m2"};
  const std::vector<std::string> expected = {all_byte_values(), "1", all_byte_values()};
  expect(store.multi_get(keys, kTimeout) == expected, "the values in the order asked for");
}

void num_keys(TcpStore& store) {
  const std::int64_t before = store.num_keys();
  store.set("one more", "1");
  expect(store.num_keys() == before + 1, "one key more");
}

void prefix_store(TcpStore& store) {
  PrefixStore nested("cpu/", std::make_shared<PrefixStore>("default_pg", store.clone()));
  nested.set("x", "1");
  expect(store.get("default_pg/cpu//x") == "1", "PyTorch's joined key");
}

void many_clients(TcpStore& store) {
  constexpr int kClients = 64;
  std::vector<std::shared_ptr<ddp::Store>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(store.clone());
  for (const auto& client : clients) client->add("clients", 1);
  expect(store.get("clients") == std::to_string(kClients), "one count a client");
}

void queue(TcpStore& store) {
  store.queue_push("queue", "first");
  store.queue_push("queue", "second");
  expect(store.queue_length("queue") == 2, "two elements");
  expect(store.queue_pop("queue", kTimeout) == "first", "the first");
  expect(store.queue_pop("queue", Timeout(0)) == "second", "the second");
  expect(!store.queue_pop("queue", Timeout(0)), "nothing");
}

void list_keys(TcpStore& store) {
  store.set("listed", "1");
  const std::vector<std::string> keys = store.list_keys();
  expect(std::count(keys.begin(), keys.end(), "listed") == 1, "the key in the list");
}

void barrier(TcpStore& store) {
  const auto other = std::dynamic_pointer_cast<TcpStore>(store.clone());
  std::jthread thread([&] { other->barrier("barrier", 2, kTimeout); });
  store.barrier("barrier", 2, kTimeout);
  thread.join();
}

const std::vector<Check> kChecks = {
    {"set and get", set_and_get},
    {"7 MiB", [](TcpStore& store) { large_value(store, 7 << 20); }},
    {"add", add},
    {"compare set", compare_set},
    {"check", check},
    {"wait", wait},
    {"wait timeout", wait_timeout},
    {"delete key", delete_key},
    {"append", append},
    {"multi get and multi set", multi_get_and_multi_set},
    {"num keys", num_keys},
    {"prefix store", prefix_store},
    {"many clients", many_clients},
};

// PyTorch's libuv server takes 8 MiB at most.
const std::vector<Check> kPollServerChecks = {
    {"20 MiB", [](TcpStore& store) { large_value(store, 20 << 20); }},
};

const std::vector<Check> kLibuvServerChecks = {
    {"queue", queue},
    {"list keys", list_keys},
    {"barrier", barrier},
};

// Runs each check on a connection of its own, so that one failure does not cause others.
int run_checks(std::uint16_t port, const std::vector<Check>& checks) {
  int failures = 0;
  for (const Check& each : checks) {
    const auto body = [&] { each.body(*connect(port)); };
    if (!report(each.name, body)) ++failures;
  }
  return failures;
}

int run_client(std::uint16_t port, bool libuv) {
  const int failures =
      run_checks(port, kChecks) + run_checks(port, libuv ? kLibuvServerChecks : kPollServerChecks);
  return failures == 0 ? 0 : 1;
}

// Ten rounds, in which each rank publishes a value and increments a counter, the last one releases
// the others, and all read what the others published. torch_meet.py does the same.
void meet(TcpStore& store, int rank, int world_size) {
  for (int round = 0; round < 10; ++round) {
    const std::string prefix = "meet/" + std::to_string(round) + "/";
    store.set(prefix + std::to_string(rank), prefix + std::to_string(rank * rank));
    if (store.add(prefix + "arrived", 1) == world_size) store.set(prefix + "all", "1");
    const std::string all[] = {prefix + "all"};
    store.wait(all, kTimeout);
    for (int peer = 0; peer < world_size; ++peer) {
      expect(store.get(prefix + std::to_string(peer)) == prefix + std::to_string(peer * peer),
             "the value of rank " + std::to_string(peer));
    }
  }
}

int run_meet(std::uint16_t port, int rank, int world_size) {
  const std::string name = "rank " + std::to_string(rank) + " (ours) met the others";
  const auto body = [&] { meet(*connect(port, rank), rank, world_size); };
  return report(name, body) ? 0 : 1;
}

int run_server() {
  const TcpServer server({"127.0.0.1", 0});
  std::cout << server.endpoint().port << std::endl;
  std::string ignored;
  while (std::getline(std::cin, ignored)) continue;
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t i) { return std::stoi(arguments.at(i)); };
  const auto port = [&] { return static_cast<std::uint16_t>(number(1)); };
  const std::string mode = arguments.at(0);
  if (mode == "server") return run_server();
  if (mode == "client") return run_client(port(), arguments.size() > 2);
  if (mode == "meet") return run_meet(port(), number(2), number(3));
  throw std::invalid_argument("unknown mode " + mode);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "store_interop: " << ddp::describe(error) << '\n';
    return 2;
  }
}
