// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ddp/store/store.h"

namespace ddp {

// Ends an exchange in which all ranks read what rank 0 wrote to the store; each rank calls it after
// reading. Rank 0, which may host the store, waits until all have read, but at most two seconds, so
// that the store does not disappear before. The other ranks do not wait. Never throws an Error,
// since the exchange itself has succeeded. On rank 0: the ranks that have not read by then.
//
// If all have read, nobody needs the exchange any more, and rank 0 deletes its keys `temporary` and
// those of this function; if `temporary` is empty, nothing is deleted.
std::vector<int> let_all_read(Store& store, int rank, int world_size,
                              std::span<const std::string_view> temporary = {});

}  // namespace ddp
