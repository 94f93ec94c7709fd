// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/store/store.h"

namespace ddp {

// For the end of an exchange in which all ranks have read what rank 0 wrote, each on its way out.
// Rank 0, which may host the store, waits until they have, for two seconds at most; the others do
// not wait. Never throws an Error: they have what they need.
void let_all_read(Store& store, int rank, int world_size);

}  // namespace ddp
