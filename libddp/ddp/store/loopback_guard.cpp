// SPDX-License-Identifier: MIT
#include "ddp/store/loopback_guard.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "ddp/base/net/resolve.h"

namespace ddp {
namespace {

using GetName = decltype(&::getsockname);

sockaddr_storage address_of(const Socket& socket, GetName get_name) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (get_name(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    address.ss_family = AF_UNSPEC;
  }
  return address;
}

const sockaddr_in& as_ipv4(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}

const sockaddr_in6& as_ipv6(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

// Writes the address and port into fields of inet_diag_sockid.
void put(const sockaddr_storage& address, __be32* host, __be16& port) {
  if (address.ss_family == AF_INET6) {
    port = as_ipv6(address).sin6_port;
    std::memcpy(host, &as_ipv6(address).sin6_addr, sizeof(in6_addr));
  } else {
    port = as_ipv4(address).sin_port;
    std::memcpy(host, &as_ipv4(address).sin_addr, sizeof(in_addr));
  }
}

}  // namespace

std::optional<LoopbackGuard> LoopbackGuard::of(const Socket& listener) {
  const sockaddr_storage local = address_of(listener, ::getsockname);
  const bool is_local = is_loopback(reinterpret_cast<const sockaddr&>(local));
  if (::geteuid() == 0 || !is_local) return std::nullopt;
  LoopbackGuard guard(FileDescriptor(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)));
  sockaddr_storage nobody{};
  nobody.ss_family = local.ss_family;
  const std::optional<Owner> self = guard.owner(local, nobody);
  if (!self || self->user != ::geteuid()) return std::nullopt;
  return guard;
}

// A socket that its owner has closed counts as root's, so it must be open.
std::string LoopbackGuard::refusal(const Socket& accepted) const {
  const std::optional<Owner> peer =
      owner(address_of(accepted, ::getpeername), address_of(accepted, ::getsockname));
  if (!peer || !peer->is_connected) return "it was closed at once";
  if (peer->user == ::geteuid() || peer->user == 0) return "";
  return "it belongs to user " + std::to_string(peer->user) +
         ", and on one host only processes of the same user may join a job";
}

std::optional<LoopbackGuard::Owner> LoopbackGuard::owner(const sockaddr_storage& local,
                                                         const sockaddr_storage& remote) const {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<__u8>(local.ss_family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~__u32{0};
  inet_diag_sockid& id = question.request.id;
  put(local, id.idiag_src, id.idiag_sport);
  put(remote, id.idiag_dst, id.idiag_dport);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(kernel_.get(), &question, sizeof(question), 0) < 0) return std::nullopt;

  alignas(nlmsghdr) std::array<char, 4096> answer{};
  const ssize_t size = ::recv(kernel_.get(), answer.data(), answer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (size < 0 || !NLMSG_OK(header, static_cast<std::size_t>(size)) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  const auto* socket = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  return Owner{socket->idiag_uid, socket->idiag_state == TCP_ESTABLISHED};
}

}  // namespace ddp
