// SPDX-License-Identifier: MIT
#include "ddp/base/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "ddp/base/error.h"

namespace ddp {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const char* host = endpoint.host.empty() ? nullptr : endpoint.host.c_str();
  const int status = ::getaddrinfo(host, port.c_str(), &hints, &found);
  if (status != 0) {
    const char* reason = status == EAI_SYSTEM ? "system error" : ::gai_strerror(status);
    throw NetworkError("cannot resolve host '" + endpoint.host + "': " + reason);
  }
  return {found, &::freeaddrinfo};
}

FileDescriptor open_socket(int family) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw SystemError("cannot create a socket", errno);
  return FileDescriptor(fd);
}

void set_option(int fd, int level, int option, int value) {
  if (::setsockopt(fd, level, option, &value, sizeof(value)) != 0) {
    throw SystemError("cannot set a socket option", errno);
  }
}

Endpoint endpoint_of(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int status =
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  if (status != 0) return {"unknown", 0};
  return {host, static_cast<std::uint16_t>(std::stoul(port))};
}

Endpoint endpoint_of(const addrinfo& address) {
  sockaddr_storage storage{};
  std::copy_n(reinterpret_cast<const std::byte*>(address.ai_addr), address.ai_addrlen,
              reinterpret_cast<std::byte*>(&storage));
  return endpoint_of(storage, address.ai_addrlen);
}

bool wait_for(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const auto remaining = std::min<Timeout>(deadline.remaining(), std::chrono::hours(1));
    const int ready = ::poll(&entry, 1, static_cast<int>(remaining.count()));
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) throw SystemError("poll failed", errno);
  }
}

// Returns the connected descriptor, or the errno value that says why not.
std::pair<FileDescriptor, int> try_connect(const addrinfo& address, Deadline deadline) {
  FileDescriptor fd = open_socket(address.ai_family);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return {std::move(fd), 0};
  if (errno != EINPROGRESS && errno != EINTR) return {FileDescriptor(), errno};
  if (!wait_for(fd.get(), POLLOUT, deadline)) return {FileDescriptor(), ETIMEDOUT};
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return {FileDescriptor(), error};
  return {std::move(fd), 0};
}

// On loopback a connect to a free ephemeral port can meet itself (TCP simultaneous open).
bool connected_to_itself(const Socket& socket) {
  const Endpoint local = socket.local_endpoint();
  const Endpoint peer = socket.peer_endpoint();
  return local.port == peer.port && local.host == peer.host;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket::Socket(FileDescriptor fd) : fd_(std::move(fd)) {
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

Socket Socket::connect(const Endpoint& endpoint, Deadline deadline) {
  const AddressList addresses = resolve(endpoint, 0);
  Timeout pause(1);
  for (;;) {
    std::string reasons;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      auto [fd, error] = try_connect(*address, deadline);
      if (error == 0) {
        Socket connected(std::move(fd));
        if (!connected_to_itself(connected)) return connected;
        error = ECONNREFUSED;
      }
      if (!reasons.empty()) reasons += ", ";
      reasons += to_string(endpoint_of(*address)) + ": " + error_text(error);
    }
    if (deadline.remaining() <= pause) {
      throw NetworkError("cannot connect to " + to_string(endpoint) + " (" + reasons + ")");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<Timeout>(pause * 2, std::chrono::milliseconds(250));
  }
}

Socket Socket::listen(const Endpoint& endpoint) {
  const AddressList addresses = resolve(endpoint, AI_PASSIVE);
  const addrinfo* chosen = addresses.get();
  if (endpoint.host.empty()) {  // every interface: prefer IPv6, which takes IPv4 as well
    for (const addrinfo* a = chosen; a != nullptr; a = a->ai_next) {
      if (a->ai_family == AF_INET6) chosen = a;
    }
  }
  const std::string action = "cannot listen on " + to_string(endpoint_of(*chosen));
  FileDescriptor fd = open_socket(chosen->ai_family);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (chosen->ai_family == AF_INET6 && endpoint.host.empty()) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (::bind(fd.get(), chosen->ai_addr, chosen->ai_addrlen) != 0) throw SystemError(action, errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) throw SystemError(action, errno);
  return Socket(std::move(fd));
}

std::optional<Socket> Socket::accept() {
  for (;;) {
    const int fd = ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return Socket(FileDescriptor(fd));
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR && errno != ECONNABORTED) {
      throw SystemError("cannot accept a connection", errno);
    }
  }
}

std::size_t Socket::send_some(std::span<const std::byte> bytes) {
  for (;;) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) throw NetworkError("cannot send: " + error_text(errno));
  }
}

std::optional<std::size_t> Socket::receive_some(std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t received = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) throw NetworkError("the peer closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) throw NetworkError("cannot receive: " + error_text(errno));
  }
}

void Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::size_t sent = send_some(bytes);
    bytes = bytes.subspan(sent);
    if (sent == 0 && !wait_for(fd_.get(), POLLOUT, deadline)) {
      throw TimeoutError("timed out while sending");
    }
  }
}

void Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (!wait_readable(deadline)) throw TimeoutError("timed out while receiving");
    if (const auto received = receive_some(bytes)) bytes = bytes.subspan(*received);
  }
}

bool Socket::wait_readable(Deadline deadline) const {
  return wait_for(fd_.get(), POLLIN, deadline);
}

Endpoint Socket::local_endpoint() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return endpoint_of(address, length);
}

Endpoint Socket::peer_endpoint() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return endpoint_of(address, length);
}

}  // namespace ddp
