// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/store/store.h"

namespace ddp {

// Ends an exchange in which all ranks read what rank 0 wrote to the store; each rank calls it after
// reading. Rank 0, which may host the store, waits until all have read, but at most two seconds, so
// that the store does not disappear before. The other ranks do not wait. Never throws an Error,
// since the exchange itself has succeeded. False on rank 0 if no other rank has read by then.
bool let_all_read(Store& store, int rank, int world_size);

}  // namespace ddp
