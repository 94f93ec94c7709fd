// SPDX-License-Identifier: MIT
//
// Finding the process that uses a port: reading /proc/net/tcp, and the messages about an address
// that cannot be bound.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "ddp/base/net/socket.h"
#include "launcher/nodes/port_holder.h"
#include "launcher/nodes/store_port.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;

namespace {

// Contains: 127.0.0.1:29500 as the end of a connection and (inode 22) as a listener; an ended
// connection; 0.0.0.0:80.
constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:733C 0100007F:8124 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "21 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
    "22 1 0000000000000000 100 0 0 10 0\n"
    "   2: 0100007F:733D 0100007F:8125 06 00000000:00000000 03:00000000 00000000     0        0 "
    "0 3 0000000000000000\n"
    "   3: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
    "23 1 0000000000000000 100 0 0 10 0\n"
    "   4: nonsense\n";

constexpr const char* kLoopback = "0100007F";

}  // namespace

TEST_CASE("the kernel's table of TCP sockets is read", "[ports]") {
  const std::vector<TcpEntry> entries = parse_tcp_table(kTable);
  REQUIRE(entries.size() == 4);
  CHECK(entries[0].address == kLoopback);
  CHECK(entries[0].port == 29500);
  CHECK(entries[0].user == 1000);
  CHECK(entries[0].inode == 21);
  CHECK_FALSE(entries[0].listens);
  CHECK(entries[1].listens);
  CHECK(parse_tcp_table("").empty());
}

TEST_CASE("a port is held by its listener, on the same address or on all", "[ports]") {
  const std::vector<TcpEntry> entries = parse_tcp_table(kTable);
  const auto inode = [&entries](const std::string& address, std::uint16_t port) {
    const TcpEntry* holder = find_holder(entries, address, port);
    return holder == nullptr ? 0 : holder->inode;
  };
  CHECK(inode(kLoopback, 29500) == 22);
  CHECK(inode("00000000", 29500) == 22);
  CHECK(inode("0200007F", 29500) == 0);
  CHECK(inode(kLoopback, 29501) == 0);  // belongs to no process
  CHECK(inode(kLoopback, 80) == 23);
  CHECK(inode(kLoopback, 81) == 0);
}

TEST_CASE("an IPv4 address mapped to IPv6 is the same address", "[ports]") {
  const std::vector<TcpEntry> entries = {{"0000000000000000FFFF00000100007F", 1, true, 0, 5}};
  CHECK(find_holder(entries, kLoopback, 1) != nullptr);
  CHECK(find_holder(entries, "0200007F", 1) == nullptr);
  const std::string loopback6 = "00000000000000000000000001000000";
  const std::vector<TcpEntry> all = {{"00000000", 1, true, 0, 6},
                                     {std::string(32, '0'), 1, true, 0, 7}};
  CHECK(find_holder(all, loopback6, 1)->inode == 7);
  CHECK(find_holder(std::span(all).last(1), kLoopback, 1)->inode == 7);
}

TEST_CASE("the holder of a port is found with its command", "[ports]") {
  const std::string host = GENERATE(as<std::string>(), "127.0.0.1", "::1", "");
  const ddp::Socket listener = ddp::Socket::listen({host, 0});
  const ddp::Endpoint endpoint{host, listener.local_endpoint().port};
  const auto holder = describe_port_holder(endpoint);
  REQUIRE(holder);
  CHECK_THAT(*holder, Contains("pid " + std::to_string(::getpid()) + " (") &&
                          Contains("launcher_unit_test"));
  CHECK_FALSE(describe_port_holder({"127.0.0.1", 0}));
}

TEST_CASE("an error about an address comes with a hint", "[ports]") {
  CHECK(bind_hint(EADDRINUSE, "pid 1 (init)", {}) ==
        " by pid 1 (init); without --master_port, ddp-launch takes a free port");
  CHECK(bind_hint(EADDRINUSE, "", {}) == "; without --master_port, ddp-launch takes a free port");
  CHECK(bind_hint(EADDRINUSE, "pid 1 (ddp-agent)", {}, 2) ==
        " by pid 1 (ddp-agent); if that is a launcher of this job, give each node its own "
        "--node_rank; otherwise give the job another --master_port");
  CHECK(bind_hint(EADDRNOTAVAIL, "", {"127.0.0.1", "10.0.0.1"}) ==
        "; this host has 127.0.0.1, 10.0.0.1: choose one with --master_addr");
  CHECK(bind_hint(EADDRNOTAVAIL, "", {"10.0.0.1"}, 2) ==
        "; this host has 10.0.0.1: if it really is node 0 (--node_rank), choose one with "
        "--master_addr");
  CHECK_THAT(bind_hint(EACCES, "", {}), Contains("below 1024"));
  CHECK(bind_hint(ENOMEM, "", {}).empty());
}
