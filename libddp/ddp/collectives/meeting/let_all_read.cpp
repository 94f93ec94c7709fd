// SPDX-License-Identifier: MIT
#include "ddp/collectives/meeting/let_all_read.h"

#include <string>

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr std::string_view kReaders = "readers";
constexpr std::string_view kAllRead = "read_by_all";
constexpr Timeout kReadersGrace = std::chrono::seconds(2);

std::string reader(int rank) { return "reader/" + std::to_string(rank); }

void delete_exchange(Store& store, int world_size, std::span<const std::string_view> temporary) {
  for (const std::string_view key : temporary) store.delete_key(key);
  for (int rank = 1; rank < world_size; ++rank) store.delete_key(reader(rank));
  store.delete_key(kReaders);
  store.delete_key(kAllRead);
}

}  // namespace

std::vector<int> let_all_read(Store& store, int rank, int world_size,
                              std::span<const std::string_view> temporary) {
  std::vector<int> late;
  try {
    if (rank > 0) {
      store.set(reader(rank), "");
      if (store.add(kReaders, 1) == world_size - 1) store.set(kAllRead, "");
    } else if (!store.wait_for(kAllRead, kReadersGrace)) {
      for (int other = 1; other < world_size; ++other) {
        if (!store.has(reader(other))) late.push_back(other);
      }
    } else if (!temporary.empty()) {
      delete_exchange(store, world_size, temporary);
    }
  } catch (const Error&) {
  }
  return late;
}

}  // namespace ddp
