// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/store/tcp_server.h"

namespace ddp::launcher {

// Serves the job's store on those of the addresses that are this host's. The port stays bound from
// here to the end of the job, so that a free one (port 0) cannot be snatched away. Throws
// LaunchError that says what is wrong with the address or the port, and who has it; of a job on
// several nodes that may be another node's launcher.
[[nodiscard]] std::unique_ptr<TcpServer> serve_store(std::span<const Endpoint> addresses,
                                                     int node_count = 1);

// Who has the port at one of the addresses; see port_holder.h.
[[nodiscard]] std::string holder_of(std::span<const Endpoint> addresses);

// What to do about `error_number` of bind(2), to append to its text; "" if there is no telling.
// `holder` is who has the port, `own_addresses` are this host's.
[[nodiscard]] std::string bind_hint(int error_number, const std::string& holder,
                                    const std::vector<std::string>& own_addresses,
                                    int node_count = 1);

}  // namespace ddp::launcher
