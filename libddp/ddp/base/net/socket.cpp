// SPDX-License-Identifier: MIT
#include "ddp/base/net/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/net/poll_until.h"
#include "ddp/base/net/resolve.h"

namespace ddp {
namespace {

constexpr Timeout kReceiveTimeout{100};
constexpr Timeout kListenTimeout = std::chrono::seconds(10);  // to resolve the own name
constexpr Timeout kLongestAttempt = std::chrono::seconds(2);  // to connect to one address

// An idle connection is probed after a minute, so that a firewall between the hosts does not forget
// it while all ranks compute. It is lost three minutes after the last answer of the other host,
// whose kernel answers for stopped processes, too.
constexpr int kIdleSeconds = 60;
constexpr int kProbeSeconds = 15;
constexpr int kProbes = 8;

// Not open if the kernel lacks this family of addresses: the endpoint may have others.
FileDescriptor open_socket(int family, const std::string& action) {
  FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open() && errno != EAFNOSUPPORT) throw SystemError(action, errno);
  return fd;
}

bool has_ipv6() {
  return FileDescriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)).is_open();
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
  return poll_until({&entry, 1}, deadline);
}

// A process that ends with unread bytes resets its connections.
bool is_hang_up(int error_number) { return error_number == ECONNRESET || error_number == EPIPE; }

// One call of recv. Returns nothing if no byte came, also after a signal: retrying would start the
// wait anew at each signal, possibly forever.
std::optional<std::size_t> receive(int fd, std::span<std::byte> bytes, int flags) {
  const ssize_t received = ::recv(fd, bytes.data(), bytes.size(), flags);
  if (received > 0) return static_cast<std::size_t>(received);
  if (received == 0 || is_hang_up(errno)) throw HangUpError();
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
  throw NetworkError("cannot receive: " + error_text(errno));
}

// Lets recv wait for at most kReceiveTimeout. All other calls pass MSG_DONTWAIT.
void make_blocking(int fd) {
  const auto microseconds = std::chrono::microseconds(kReceiveTimeout).count();
  const timeval timeout{0, static_cast<suseconds_t>(microseconds)};
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0) {
    throw SystemError("cannot set a socket option", errno);
  }
}

// A filter may swallow what is sent to an address, so the addresses that are left in this round
// share the time.
Deadline end_of_attempt(const addrinfo& address, Deadline deadline) {
  int left = 0;
  for (const addrinfo* each = &address; each != nullptr; each = each->ai_next) ++left;
  return Deadline::after(std::min(deadline.remaining() / left, kLongestAttempt));
}

// Returns the connected descriptor, or the errno value that says why not.
std::pair<FileDescriptor, int> try_connect(const addrinfo& address, Deadline deadline,
                                           const std::string& action) {
  FileDescriptor fd = open_socket(address.ai_family, action);
  if (!fd.is_open()) return {FileDescriptor(), EAFNOSUPPORT};
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return {std::move(fd), 0};
  if (errno != EINPROGRESS && errno != EINTR) return {FileDescriptor(), errno};
  if (!wait_for(fd.get(), POLLOUT, deadline)) return {FileDescriptor(), ETIMEDOUT};
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return {FileDescriptor(), error};
  return {std::move(fd), 0};
}

// The errno value for a connection that the kernel wrongly reports as connected; 0 if it is
// connected.
int fault_of(const Socket& socket) {
  const Endpoint local = socket.local_endpoint();
  const Endpoint peer = socket.peer_endpoint();
  // Only a peer proves a connection: poll may call a socket ready before its connect has failed.
  if (peer.port == 0) return ENOTCONN;
  // On loopback a connect to a free ephemeral port can meet itself (TCP simultaneous open).
  if (local.port == peer.port && local.host == peer.host) return ECONNREFUSED;
  return 0;
}

bool is_silence(int error_number) {
  return error_number == ETIMEDOUT || error_number == EHOSTUNREACH || error_number == ENETUNREACH ||
         error_number == ENETDOWN;
}

// Waiting does not help: nobody sets up the loopback interface of a running host or container.
bool lacks_loopback(const addrinfo& address, int error_number) {
  return error_number == ENETUNREACH && is_loopback(*address.ai_addr);
}

// Why one round of attempts, of which each address has one, has failed. The deadline cuts the last
// round short, so that a refusal which is under way would look like silence: the one before tells.
struct ConnectFailure {
  std::string reasons;
  bool is_silence = true;

  [[noreturn]] void raise(const std::string& action) const {
    const std::string text = action + " (" + reasons + ")";
    if (is_silence) throw NoAnswerError(text);
    throw NetworkError(text);
  }
};

// IPv6 takes IPv4 as well.
const addrinfo& any_interface(const addrinfo& addresses) {
  const addrinfo* chosen = &addresses;
  for (const addrinfo* each = chosen; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET6 && has_ipv6()) chosen = each;
  }
  return *chosen;
}

FileDescriptor listen_at(const addrinfo& address, bool takes_ipv4) {
  const std::string action = "cannot listen on " + to_string(endpoint_of(address));
  FileDescriptor fd = open_socket(address.ai_family, action);
  if (!fd.is_open()) throw SystemError(action, EAFNOSUPPORT);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6 && takes_ipv4) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0) throw SystemError(action, errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) throw SystemError(action, errno);
  return fd;
}

}  // namespace

Socket::Socket(FileDescriptor fd) : fd_(std::move(fd)) {
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
}

Socket Socket::connect(const Endpoint& endpoint, Deadline deadline) {
  const std::string action = "cannot connect to " + to_string(endpoint);
  const AddressList addresses = resolve_patiently(endpoint, deadline);
  Timeout pause(1);
  std::optional<ConnectFailure> before;
  for (;;) {
    ConnectFailure failure;
    bool may_succeed_later = false;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      auto [fd, error] = try_connect(*address, end_of_attempt(*address, deadline), action);
      if (error == 0) {
        Socket connected(std::move(fd));
        error = fault_of(connected);
        if (error == 0) {
          make_blocking(connected.fd());
          return connected;
        }
      }
      failure.is_silence = failure.is_silence && is_silence(error);
      if (!failure.reasons.empty()) failure.reasons += ", ";
      failure.reasons += to_string(endpoint_of(*address)) + ": " + error_text(error);
      if (lacks_loopback(*address, error)) {
        failure.reasons += ", since the loopback interface is down (ip link set lo up)";
      } else if (error != EAFNOSUPPORT) {
        may_succeed_later = true;
      }
    }
    if (!may_succeed_later) failure.raise(action);
    if (deadline.passed()) before.value_or(failure).raise(action);
    before = std::move(failure);
    std::this_thread::sleep_for(std::min(pause, deadline.remaining()));
    pause = std::min<Timeout>(pause * 2, std::chrono::milliseconds(250));
  }
}

Socket Socket::listen(const Endpoint& endpoint) {
  const AddressList addresses = resolve(endpoint, AI_PASSIVE, Deadline::after(kListenTimeout));
  if (endpoint.host.empty())
    return Socket(listen_at(any_interface(*addresses), /*takes_ipv4=*/true));
  std::optional<SystemError> first_error;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    try {
      return Socket(listen_at(*address, /*takes_ipv4=*/false));
    } catch (const SystemError& error) {
      if (!is_of_another_host(error)) throw;
      if (!first_error) first_error = error;
    }
  }
  throw SystemError(*first_error);
}

bool host_answers(const Endpoint& address, Deadline deadline) {
  const AddressList addresses = resolve(address, AI_NUMERICHOST, deadline);
  return !is_silence(
      try_connect(*addresses, deadline, "cannot connect to " + to_string(address)).second);
}

bool is_of_another_host(const SystemError& error) {
  return error.error_number() == EADDRNOTAVAIL || error.error_number() == EAFNOSUPPORT;
}

std::optional<Socket> Socket::accept(Endpoint* peer) {
  for (;;) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    FileDescriptor connection(::accept4(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length,
                                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.is_open()) {
      if (peer != nullptr) *peer = endpoint_of(address, length);
      return Socket(std::move(connection));
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR && errno != ECONNABORTED) {
      throw SystemError("cannot accept a connection", errno);
    }
  }
}

std::size_t Socket::send_some(std::span<const std::byte> bytes) { return send_some(bytes, {}); }

std::size_t Socket::send_some(std::span<const std::byte> first, std::span<const std::byte> second) {
  const auto part = [](std::span<const std::byte> bytes) {
    return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  iovec parts[] = {part(first), part(second)};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  for (;;) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (is_hang_up(errno)) throw HangUpError();
    if (errno != EINTR) throw NetworkError("cannot send: " + error_text(errno));
  }
}

std::optional<std::size_t> Socket::receive_some(std::span<std::byte> bytes) {
  return receive(fd_.get(), bytes, MSG_DONTWAIT);
}

// Short waits use the kernel's receive timeout; longer ones use poll.
std::optional<std::size_t> Socket::receive_until(std::span<std::byte> bytes, Deadline deadline) {
  if (deadline.remaining() > kReceiveTimeout) {
    if (const auto received = receive(fd_.get(), bytes, 0)) return received;
  }
  while (wait_readable(deadline)) {
    if (const auto received = receive_some(bytes)) return received;
  }
  return std::nullopt;
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
    const auto received = receive_until(bytes, deadline);
    if (!received) throw TimeoutError("timed out while receiving");
    bytes = bytes.subspan(*received);
  }
}

bool Socket::wait_readable(Deadline deadline) const {
  return wait_for(fd_.get(), POLLIN, deadline);
}

void Socket::abandon() noexcept {
  const linger now{1, 0};
  (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close();
}

void Socket::shut_down() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

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
