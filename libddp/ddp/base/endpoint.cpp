// SPDX-License-Identifier: MIT
#include "ddp/base/endpoint.h"

namespace ddp {

std::string to_string(const Endpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

}  // namespace ddp
