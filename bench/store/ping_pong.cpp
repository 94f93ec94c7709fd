// SPDX-License-Identifier: MIT
#include "store/ping_pong.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "ddp/base/error.h"

namespace ddp::bench {
namespace {

Socket blocking(Socket socket) {
  const int flags = ::fcntl(socket.fd(), F_GETFL);
  if (::fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    throw SystemError("cannot make a socket blocking", errno);
  }
  return socket;
}

Socket accept_one(Socket& listener, Deadline deadline) {
  while (listener.wait_readable(deadline)) {
    if (std::optional<Socket> accepted = listener.accept()) return std::move(*accepted);
  }
  throw TimeoutError("nobody connected");
}

// Both return false if the peer has closed the connection.
bool send_bytes(const Socket& socket, const std::string& bytes, std::size_t count) {
  return ::send(socket.fd(), bytes.data(), count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

bool receive_bytes(const Socket& socket, std::string& bytes, std::size_t count) {
  return ::recv(socket.fd(), bytes.data(), count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

std::size_t longest_message(const std::vector<PingPong::Exchange>& exchanges) {
  std::size_t longest = 0;
  for (const auto& exchange : exchanges) {
    longest = std::max({longest, exchange.request_bytes, exchange.reply_bytes});
  }
  return longest;
}

void echo(const Socket& socket, const std::vector<PingPong::Exchange>& exchanges) {
  std::string message(longest_message(exchanges), 'e');
  for (;;) {
    for (const auto& [request_bytes, reply_bytes] : exchanges) {
      if (!receive_bytes(socket, message, request_bytes)) return;
      if (!send_bytes(socket, message, reply_bytes)) return;
    }
  }
}

}  // namespace

PingPong::PingPong(std::vector<Exchange> exchanges)
    : exchanges_(std::move(exchanges)), message_(longest_message(exchanges_), 'p') {
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  Socket listener = Socket::listen({"127.0.0.1", 0});
  client_ = blocking(Socket::connect(listener.local_endpoint(), deadline));
  server_ = blocking(accept_one(listener, deadline));
  echo_ = std::thread([this] { echo(server_, exchanges_); });
}

PingPong::~PingPong() {
  ::shutdown(client_.fd(), SHUT_RDWR);
  echo_.join();
}

void PingPong::run() {
  for (const auto& [request_bytes, reply_bytes] : exchanges_) {
    if (!send_bytes(client_, message_, request_bytes) ||
        !receive_bytes(client_, message_, reply_bytes)) {
      throw NetworkError("the ping-pong broke");
    }
  }
}

}  // namespace ddp::bench
