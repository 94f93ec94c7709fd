// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/socket.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"

namespace ddp {

// Connects this rank with every other one, and returns the connections by rank; the own place holds
// a socket that is not open. All ranks of the group call it, with a store that only this group
// uses. `address` is this host's, on the interface to use. Connections of strangers are closed: a
// peer must know a random number that only the store tells.
//
// Throws TimeoutError after the deadline, what the store throws, SystemError if this rank cannot
// listen, and NetworkError naming the address if a peer cannot be reached.
[[nodiscard]] std::vector<Socket> connect_mesh(Store& store, int rank, int world_size,
                                               const std::string& address, Deadline deadline);

}  // namespace ddp
