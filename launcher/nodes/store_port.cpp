// SPDX-License-Identifier: MIT
#include "launcher/nodes/store_port.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "ddp/base/error.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/port_holder.h"

namespace ddp::launcher {
namespace {

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (::getnameinfo(each->ifa_addr, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text);
    }
  }
  return addresses;
}

// With several nodes all must use the same port, so another one cannot be chosen.
const char* remedy_for_taken_port(int node_count) {
  if (node_count == 1) return "without --master_port, ddp-launch takes a free port";
  return "if that is a launcher of this job, give each node its own --node_rank; otherwise give "
         "the job another --master_port";
}

}  // namespace

std::string bind_hint(int error_number, const std::string& holder,
                      const std::vector<std::string>& own_addresses, int node_count) {
  switch (error_number) {
    case EADDRINUSE:
      return fmt::format("{}; {}", holder.empty() ? "" : " by " + holder,
                         remedy_for_taken_port(node_count));
    case EADDRNOTAVAIL:
      return fmt::format("; this host has {}: {}choose one with --master_addr",
                         fmt::join(own_addresses, ", "),
                         node_count == 1 ? "" : "if it really is node 0 (--node_rank), ");
    case EACCES:
      return "; a port below 1024 needs special rights";
    default:
      return "";
  }
}

std::string holder_of(std::span<const Endpoint> addresses) {
  for (const Endpoint& address : addresses) {
    if (const auto holder = describe_port_holder(address)) return *holder;
  }
  return "";
}

std::unique_ptr<TcpServer> serve_store(std::span<const Endpoint> addresses, int node_count) try {
  return std::make_unique<TcpServer>(addresses);
} catch (const SystemError& error) {
  const int number = error.error_number();
  const std::string holder = number == EADDRINUSE ? holder_of(addresses) : "";
  throw LaunchError(error.what() + bind_hint(number, holder, own_addresses(), node_count));
}

}  // namespace ddp::launcher
