// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/store/store.h"

namespace ddp {

// Ends an exchange in which all ranks read what rank 0 wrote to the store; each rank calls this
// when it has read. Rank 0, which may host the store, waits until all have, for two seconds at
// most, so that the store does not go before. The other ranks do not wait. Never throws an Error,
// since the exchange itself has succeeded.
void let_all_read(Store& store, int rank, int world_size);

}  // namespace ddp
