// SPDX-License-Identifier: MIT
#pragma once

#include <netdb.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"

namespace ddp {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// What getaddrinfo has returned.
struct NameAnswer {
  int status = EAI_AGAIN;
  AddressList addresses{nullptr, &::freeaddrinfo};
};

inline constexpr Timeout kLateName = std::chrono::seconds(30);

// The addresses of a TCP endpoint: never empty. `flags` are getaddrinfo's. Throws NetworkError that
// names the host.
[[nodiscard]] AddressList resolve(const Endpoint& endpoint, int flags, Deadline deadline);

// The same for a peer: a name that is not known is asked for again during kLateName, since that of
// a host which just starts appears late.
[[nodiscard]] AddressList resolve_patiently(const Endpoint& endpoint, Deadline deadline);

// Whether it is an address, which does not change as a name's does.
[[nodiscard]] bool is_in_digits(const std::string& host);

// A look-up that goes on in the background, because getaddrinfo has no timeout: one that is given
// up and begun anew never ends if a name server is silent, since the C library then asks the next
// one only after 5 s.
class LookUp {
 public:
  explicit LookUp(const Endpoint& endpoint);
  // False if there is no answer by the deadline.
  [[nodiscard]] bool is_done_by(Deadline deadline) const;
  // The answer, once it is there. Throws NetworkError that names the host.
  [[nodiscard]] AddressList take();

 private:
  Endpoint endpoint_;
  std::future<NameAnswer> answer_;  // no exception, which two threads would then destroy
};

// The addresses in digits, each once: they need no name server.
[[nodiscard]] std::vector<Endpoint> endpoints_of(const AddressList& addresses);

// The same without loopback addresses.
[[nodiscard]] std::vector<Endpoint> endpoints_for_others(const AddressList& addresses);

// For an IPv4 or IPv6 address: whether only its own host reaches it.
[[nodiscard]] bool is_loopback(const sockaddr& address);
// 0.0.0.0 or ::, at which a host may listen, but which is nobody's address.
[[nodiscard]] bool is_any(const sockaddr& address);

}  // namespace ddp
