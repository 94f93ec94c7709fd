// SPDX-License-Identifier: MIT
#include "ddp/collectives/let_all_read.h"

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr Timeout kReadersGrace = std::chrono::seconds(2);

}  // namespace

void let_all_read(Store& store, int rank, int world_size) {
  try {
    const std::string all_read[] = {"read_by_all"};
    if (rank == 0) return store.wait(all_read, kReadersGrace);
    if (store.add("readers", 1) == world_size - 1) store.set(all_read[0], "");
  } catch (const Error&) {
  }
}

}  // namespace ddp
