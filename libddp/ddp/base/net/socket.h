// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "ddp/base/endpoint.h"
#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"

namespace ddp {

// The peer closed the connection, or ended.
class HangUpError : public NetworkError {
 public:
  HangUpError() : NetworkError("the peer closed the connection") {}
};

// Nobody has answered a connect, not even to refuse it: the host is stopped, overloaded or out of
// reach.
class NoAnswerError : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

// Whether a host is at an address, given in digits: one that accepts a connection or refuses it.
[[nodiscard]] bool host_answers(const Endpoint& address, Deadline deadline);

// Whether Socket::listen() failed since this machine does not have the address.
[[nodiscard]] bool is_of_another_host(const SystemError& error);

// A TCP socket over IPv4 or IPv6: close-on-exec, no SIGPIPE, TCP_NODELAY, keepalive, and a deadline
// on every wait. Not thread-safe, except that one thread may send while another receives.
class Socket {
 public:
  Socket() = default;
  explicit Socket(FileDescriptor fd);

  // Tries the addresses of the host in turn, each for up to two seconds, until one accepts. All are
  // tried again until the deadline, since the server may still be starting, but not loopback ones
  // while that interface is down, nor IPv6 ones without IPv6. Throws NetworkError with all reasons,
  // and NoAnswerError if no address has answered.
  static Socket connect(const Endpoint& endpoint, Deadline deadline);

  // Binds exactly one address, the first that the host resolves to and that this machine has; an
  // empty host means every interface. Port 0 picks a free port: see local_endpoint(). Throws
  // SystemError naming the endpoint.
  static Socket listen(const Endpoint& endpoint);

  // On a listening socket: a pending connection, or nothing if there is none. Never blocks. `peer`
  // becomes its other end, which peer_endpoint() does not know if that has reset it already.
  std::optional<Socket> accept(Endpoint* peer = nullptr);

  // Transfer all bytes, or throw TimeoutError or NetworkError.
  void send_all(std::span<const std::byte> bytes, Deadline deadline);
  void receive_all(std::span<std::byte> bytes, Deadline deadline);

  // Transfer what is possible without blocking, and return the number of bytes. receive_some
  // returns nothing if no byte waits, and throws HangUpError if the peer has closed; send_some
  // returns 0 if the send buffer is full.
  std::optional<std::size_t> receive_some(std::span<std::byte> bytes);
  std::size_t send_some(std::span<const std::byte> bytes);
  // The same for the bytes of `first`, followed by those of `second`.
  std::size_t send_some(std::span<const std::byte> first, std::span<const std::byte> second);

  // Like receive_some, but waits for a byte; returns nothing if the deadline passed. On a socket
  // from connect() this is one system call, where wait_readable and receive_some are two.
  std::optional<std::size_t> receive_until(std::span<std::byte> bytes, Deadline deadline);

  // Waits until a byte or the end of the stream can be read, or the connection has broken; false if
  // the deadline passed.
  [[nodiscard]] bool wait_readable(Deadline deadline) const;

  [[nodiscard]] Endpoint local_endpoint() const;
  [[nodiscard]] Endpoint peer_endpoint() const;
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool is_open() const { return fd_.is_open(); }
  void close() noexcept { fd_.reset(); }
  // Closes without delivering what the other end has not received yet.
  void abandon() noexcept;
  // Ends the connection for all processes that share it, such as forked children.
  void shut_down() noexcept;

 private:
  FileDescriptor fd_;
};

}  // namespace ddp
