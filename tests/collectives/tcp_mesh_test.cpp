// SPDX-License-Identifier: MIT
#include "ddp/collectives/tcp/tcp_mesh.h"
#include "ddp/base/net/socket.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/meeting/start_patience.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/store/prefix_store.h"
#include "support/groups.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

constexpr const char* kAddress = "127.0.0.1";

std::vector<Socket> connect_rank(Store& store, int rank, int ranks, Deadline deadline) {
  GroupConfig config;
  MeshWait wait;
  config.rank = rank;
  config.world_size = ranks;
  return connect_mesh(store, {rank, ranks, kAddress}, GroupNames(config), {deadline, deadline},
                      wait);
}

std::ptrdiff_t open_descriptor_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// accept4() below lets no more be open.
std::atomic<std::ptrdiff_t> most_descriptors = std::numeric_limits<std::ptrdiff_t>::max();

// Where a rank listens, once it has published that.
Endpoint endpoint_of(Store& store, int rank) {
  const std::string text = store.get("tcp/" + std::to_string(rank), 20s);
  std::istringstream fields(text);
  Endpoint endpoint;
  fields >> endpoint.host >> endpoint.port;
  return endpoint;
}

}  // namespace

// Replaces the C library's function, since a real limit would concern the callers, too.
extern "C" int accept4(int listener, sockaddr* address, socklen_t* length, int flags) {
  if (open_descriptor_count() >= most_descriptors) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, listener, address, length, flags));
}

TEST_CASE("a mesh connects each rank with each, whatever strangers call", "[tcp]") {
  constexpr int kRanks = 4;
  const auto store = std::make_shared<HashStore>();
  std::vector<Socket> strangers;
  test::run_ranks(kRanks + 1, [&](int rank) {
    const Deadline deadline = Deadline::after(20s);
    if (rank == kRanks) {
      // One that says nothing, one that leaves, and one that does not know the secret.
      for (int i = 0; i < 3; ++i) {
        strangers.push_back(Socket::connect(endpoint_of(*store, 0), deadline));
      }
      strangers[1].close();
      constexpr std::array<std::uint64_t, 2> kHello{12345, 1};
      strangers[2].send_all(std::as_bytes(std::span(kHello)), deadline);
      store->set("strangers", "are there");
      return;
    }
    if (rank == 1) store->wait(std::vector<std::string>{"strangers"}, 20s);
    std::vector<Socket> links = connect_rank(*store, rank, kRanks, deadline);
    expect(links.size() == kRanks, "a place for each rank");
    for (int peer = 0; peer < kRanks; ++peer) {
      Socket& link = links[static_cast<std::size_t>(peer)];
      expect(link.is_open() == (peer != rank), "a connection to each peer");
      const std::array<int, 2> hello{rank, peer};
      if (peer != rank) link.send_all(std::as_bytes(std::span(hello)), deadline);
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      std::array<int, 2> hello{};
      links[static_cast<std::size_t>(peer)].receive_all(std::as_writable_bytes(std::span(hello)),
                                                        deadline);
      expect(hello == std::array{peer, rank}, "the peer is who it should be");
    }
  });
}

TEST_CASE("strangers who say nothing do not take the places of ranks", "[tcp]") {
  const bool is_short_of_descriptors = GENERATE(true, false);
  const int count = is_short_of_descriptors ? 30 : 100;
  most_descriptors = std::numeric_limits<std::ptrdiff_t>::max();
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(3, [&](int rank) {
    const Deadline deadline = Deadline::after(20s);
    if (rank == 2) {
      const Endpoint endpoint = endpoint_of(*store, 0);
      std::vector<Socket> strangers;
      if (is_short_of_descriptors) most_descriptors = open_descriptor_count() + count + 5;
      for (int i = 0; i < count; ++i) strangers.push_back(Socket::connect(endpoint, deadline));
      const bool is_dropped = strangers.front().wait_readable(Deadline::after(5s));
      store->set("strangers", "are there");
      expect(is_dropped, "the first stranger makes room");
      store->wait(std::vector<std::string>{"done"}, 20s);
      return;
    }
    if (rank == 1) store->wait(std::vector<std::string>{"strangers"}, 20s);
    const std::vector<Socket> links = connect_rank(*store, rank, 2, deadline);
    expect(links[static_cast<std::size_t>(1 - rank)].is_open(), "a connection to the peer");
    if (rank == 0) store->set("done", "");
  });
  most_descriptors = std::numeric_limits<std::ptrdiff_t>::max();
}

TEST_CASE("a mesh in which ranks are missing says which did not call, or which it could not reach",
          "[tcp]") {
  const auto store = std::make_shared<HashStore>();
  const auto error_of_rank = [&](int rank) {
    return error_of([&] { static_cast<void>(connect_rank(*store, rank, 3, Deadline::after(3s))); });
  };
  CHECK(error_of_rank(0) == "ranks 1, 2 did not call");
  // Rank 0 has published its address, and listens no more.
  CHECK_THAT(error_of_rank(1),
             Catch::StartsWith("rank 0: cannot connect to " + to_string(endpoint_of(*store, 0))));
  store->set("tcp/0", "nonsense");
  CHECK_THAT(error_of_rank(2), Catch::Contains("this is not the address of a rank: \"nonsense\""));
}

TEST_CASE("a rank that waits to be connected names the ranks and the addresses every few seconds",
          "[tcp]") {
  constexpr Timeout kLonger = StartPatience::kPeriod + 4s;
  const auto store = std::make_shared<HashStore>();
  const Endpoint nobody = Socket::listen({kAddress, 0}).local_endpoint();  // refuses
  const auto make = [&](int rank, const std::string& prefix) {
    (void)error_of([&] {
      (void)make_tcp_process_group({.store = std::make_shared<PrefixStore>(prefix, store),
                                    .rank = rank,
                                    .world_size = 3,
                                    .start_timeout = kLonger},
                                   kAddress);
    });
  };
  store->set("called/tcp/0", nobody.host + "\n" + std::to_string(nobody.port) + "\n1\n");
  const test::StderrCapture log;
  test::run_ranks(2, [&](int thread) { make(thread, thread == 0 ? "calls" : "called"); });
  CHECK_THAT(log.text(), Catch::Contains("[tcp] rank 0 (127.0.0.1) cannot connect to its "
                                         "peers yet: no connection from ranks 1, 2 has come to " +
                                         std::string(kAddress) + ":"));
  CHECK_THAT(log.text(),
             Catch::Matches("[^]*\\[tcp\\] rank 1 \\(127.0.0.1\\) cannot connect to its peers yet: "
                            "rank 0 cannot be reached at " +
                            to_string(nobody) + " after [5-8] s; [^]*"));
}
