// SPDX-License-Identifier: MIT
#pragma once

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <memory>
#include <string>

namespace ddp::test {

// An IPv4 address of this machine that is not a loopback address; empty if there is none.
inline std::string routable_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) continue;
    char host[NI_MAXHOST];
    if (::getnameinfo(each->ifa_addr, sizeof(sockaddr_in), host, sizeof(host), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      return host;
    }
  }
  return "";
}

}  // namespace ddp::test
