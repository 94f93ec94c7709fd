// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/let_all_read.h"

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr std::string_view kAllRead = "read_by_all";
constexpr Timeout kReadersGrace = std::chrono::seconds(2);

}  // namespace

void let_all_read(Store& store, int rank, int world_size) {
  try {
    if (rank == 0) {
      (void)store.wait_for(kAllRead, kReadersGrace);
    } else if (store.add("readers", 1) == world_size - 1) {
      store.set(kAllRead, "");
    }
  } catch (const Error&) {
  }
}

}  // namespace ddp
