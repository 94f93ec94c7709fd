// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"

namespace ddp::test {

// A port of this IPv4 address where nothing listens. Until this program ends, the kernel gives it
// to nobody who asks for any free port, as other tests do: a socket is bound to it, which does not
// listen and so lets those listen who ask for this port (SO_REUSEADDR).
inline Endpoint free_endpoint(const std::string& host = "127.0.0.1") {
  static std::vector<FileDescriptor> held;
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (::bind(fd.get(), generic, size) != 0 || ::getsockname(fd.get(), generic, &size) != 0) {
    throw SystemError("cannot hold a port", errno);
  }
  held.push_back(std::move(fd));
  return {host, ntohs(address.sin_port)};
}

}  // namespace ddp::test
