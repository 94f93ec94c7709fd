// SPDX-License-Identifier: MIT
#pragma once

#include <netdb.h>

#include <memory>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"

namespace ddp {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

inline constexpr Timeout kLateName = std::chrono::seconds(30);

// The addresses of a TCP endpoint: never empty. `flags` are getaddrinfo's. Throws NetworkError that
// names the host.
[[nodiscard]] AddressList resolve(const Endpoint& endpoint, int flags, Deadline deadline);

// The same for a peer: a name that is not known is asked for again during kLateName, since that of
// a host which just starts appears late.
[[nodiscard]] AddressList resolve_patiently(const Endpoint& endpoint, Deadline deadline);

// For an IPv4 or IPv6 address: whether only its own host reaches it.
[[nodiscard]] bool is_loopback(const sockaddr& address);
// 0.0.0.0 or ::, at which a host may listen, but which is nobody's address.
[[nodiscard]] bool is_any(const sockaddr& address);

}  // namespace ddp
