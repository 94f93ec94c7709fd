// SPDX-License-Identifier: MIT
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "ddp/base/file_descriptor.h"

namespace ddp::test {

// Gives this process a network of its own, whose loopback interface is down. False if that is not
// allowed.
inline bool enter_own_network() {
  return ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

// In such a network: brings the loopback interface up, with only IPv6's address.
inline bool bring_up_ipv6_loopback() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return false;
  const sockaddr_in none{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  std::memcpy(&request.ifr_addr, &none, sizeof(none));
  return ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0;
}

}  // namespace ddp::test
