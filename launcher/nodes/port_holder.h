// SPDX-License-Identifier: MIT
//
// Finds the process that holds a TCP port of this host, by /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/endpoint.h"

namespace ddp::launcher {

// A line of /proc/net/tcp or tcp6; see proc(5).
struct TcpEntry {
  std::string address;  // the local one, in hexadecimal digits, as the kernel prints it
  std::uint16_t port = 0;
  bool listens = false;
  uid_t user = 0;
  std::uint64_t inode = 0;  // 0: belongs to no process any more
};

// Lines that cannot be read are left out.
[[nodiscard]] std::vector<TcpEntry> parse_tcp_table(std::string_view text);

// The entry that prevents listening on this address and port: preferably a listener, on the address
// itself (or as IPv4 within IPv6), or on all addresses. `address` is as in TcpEntry.
[[nodiscard]] const TcpEntry* find_holder(std::span<const TcpEntry> entries,
                                          std::string_view address, std::uint16_t port);

// "pid 4711 (python3 train.py)", or "a process of user 1000" without the right to inspect it.
// Returns nothing if no process is found within a quarter of a second.
[[nodiscard]] std::optional<std::string> describe_port_holder(const Endpoint& endpoint);

}  // namespace ddp::launcher
