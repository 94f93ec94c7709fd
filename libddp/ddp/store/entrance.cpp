// SPDX-License-Identifier: MIT
#include "ddp/store/entrance.h"

#include <stdexcept>

#include "ddp/base/error.h"

namespace ddp {

std::vector<Entrance> open_entrances(std::span<const Endpoint> endpoints) {
  std::vector<Entrance> entrances;
  std::optional<SystemError> first_error;
  for (const Endpoint& endpoint : endpoints) {
    try {
      entrances.emplace_back(endpoint);
    } catch (const SystemError& error) {
      if (!is_of_another_host(error)) throw;
      if (!first_error) first_error = error;
    }
  }
  if (!entrances.empty()) return entrances;
  if (first_error) throw SystemError(*first_error);
  throw std::invalid_argument("[tcp_server] no endpoint given");
}

}  // namespace ddp
