// SPDX-License-Identifier: MIT
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "ddp/base/net/socket.h"

namespace ddp {

// Keeps the other users of a host away from a port at a loopback address. The kernel knows whose
// socket is at the other end of such a connection (sock_diag(7)), so clients need no secret.
class LoopbackGuard {
 public:
  // Nothing if other hosts can reach the listener, since the kernel does not know their sockets; if
  // we are root, who may start workers as other users; or if this kernel does not tell.
  static std::optional<LoopbackGuard> of(const Socket& listener);

  // Why an accepted connection must be closed; empty if it belongs to our user or to root.
  [[nodiscard]] std::string refusal(const Socket& accepted) const;

 private:
  struct Owner {
    uid_t user;
    bool is_connected;  // its socket is still open
  };

  explicit LoopbackGuard(FileDescriptor kernel) : kernel_(std::move(kernel)) {}
  // The owner of the socket on this host whose own address is `local`.
  [[nodiscard]] std::optional<Owner> owner(const sockaddr_storage& local,
                                           const sockaddr_storage& remote) const;

  FileDescriptor kernel_;
};

}  // namespace ddp
