// SPDX-License-Identifier: MIT
#include "ddp/base/net/resolve.h"

#include <netinet/in.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/background_thread.h"
#include "ddp/base/threads/run_until.h"

namespace ddp {
namespace {

// With less time than this, the caller reports what it waits for.
constexpr Timeout kQuiet = std::chrono::seconds(2);

NameAnswer ask(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  const std::string port = std::to_string(endpoint.port);
  const char* host = endpoint.host.empty() ? nullptr : endpoint.host.c_str();
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host, port.c_str(), &hints, &found);
  return {status, {found, &::freeaddrinfo}};
}

NetworkError cannot_resolve(const Endpoint& endpoint, const std::string& reason) {
  return NetworkError("cannot resolve host '" + endpoint.host + "': " + reason);
}

std::string reason_of(int status) {
  return status == EAI_SYSTEM ? "system error" : ::gai_strerror(status);
}

// getaddrinfo has no timeout, so a call that may ask a name server runs on a thread that can be
// abandoned.
NameAnswer ask_name_server(const Endpoint& endpoint, int flags, Deadline deadline) {
  const auto answer = std::make_shared<NameAnswer>();
  const bool answered =
      run_until(deadline, [answer, endpoint, flags] { *answer = ask(endpoint, flags); });
  if (!answered) throw cannot_resolve(endpoint, "the name server did not answer in time");
  return std::move(*answer);
}

NameAnswer look_up(const Endpoint& endpoint, int flags, Deadline deadline) {
  NameAnswer answer = ask(endpoint, flags | AI_NUMERICHOST);  // an address needs no name server
  return answer.status == 0 ? std::move(answer) : ask_name_server(endpoint, flags, deadline);
}

AddressList addresses_in(NameAnswer answer, const Endpoint& endpoint) {
  if (answer.status == 0) return std::move(answer.addresses);
  throw cannot_resolve(endpoint, reason_of(answer.status));
}

// Without those to be left out, and each once.
template <class LeaveOut>
std::vector<Endpoint> in_digits(const AddressList& addresses, const LeaveOut& leave_out) {
  std::vector<Endpoint> endpoints;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    const int status = ::getnameinfo(each->ai_addr, each->ai_addrlen, host, sizeof(host), port,
                                     sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    if (status != 0 || leave_out(*each->ai_addr)) continue;
    const Endpoint endpoint{host, static_cast<std::uint16_t>(std::stoul(port))};
    if (std::ranges::find(endpoints, endpoint) == endpoints.end()) endpoints.push_back(endpoint);
  }
  return endpoints;
}

bool may_appear_late(int status) { return status == EAI_AGAIN || status == EAI_NONAME; }

}  // namespace

AddressList resolve(const Endpoint& endpoint, int flags, Deadline deadline) {
  return addresses_in(look_up(endpoint, flags, deadline), endpoint);
}

AddressList resolve_patiently(const Endpoint& endpoint, Deadline deadline) {
  const Deadline patience = Deadline::after(std::min(deadline.remaining(), kLateName));
  const Deadline quiet = Deadline::after(kQuiet);
  Timeout pause = std::chrono::milliseconds(100);
  for (bool has_told = false;;) {
    NameAnswer answer = look_up(endpoint, 0, deadline);
    if (answer.status == 0) return std::move(answer.addresses);
    const NetworkError error = cannot_resolve(endpoint, reason_of(answer.status));
    if (!may_appear_late(answer.status)) throw error;
    if (quiet.passed() && !std::exchange(has_told, true)) {
      logging::warning(std::string(error.what()) +
                       "; asking again, since the name may appear later");
    }
    std::this_thread::sleep_for(std::min(pause, patience.remaining()));
    if (patience.passed()) throw error;
    pause = std::min<Timeout>(pause * 2, std::chrono::seconds(2));
  }
}

bool is_in_digits(const std::string& host) { return ask({host, 0}, AI_NUMERICHOST).status == 0; }

LookUp::LookUp(const Endpoint& endpoint) : endpoint_(endpoint) {
  const auto task =
      std::make_shared<std::packaged_task<NameAnswer()>>([endpoint] { return ask(endpoint, 0); });
  answer_ = task->get_future();
  start_background_thread("ddp-helper", [task] { (*task)(); }).detach();
}

AddressList LookUp::take() { return addresses_in(answer_.get(), endpoint_); }

bool LookUp::is_done_by(Deadline deadline) const {
  return answer_.wait_until(deadline.time_point()) == std::future_status::ready;
}

std::vector<Endpoint> endpoints_of(const AddressList& addresses) {
  return in_digits(addresses, [](const sockaddr&) { return false; });
}

std::vector<Endpoint> endpoints_for_others(const AddressList& addresses) {
  return in_digits(addresses, is_loopback);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(ipv4.sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ipv6) || (IN6_IS_ADDR_V4MAPPED(&ipv6) && ipv6.s6_addr[12] == 127);
}

bool is_any(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace ddp
