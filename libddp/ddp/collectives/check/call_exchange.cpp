// SPDX-License-Identifier: MIT
#include "ddp/collectives/check/call_exchange.h"

#include <cstring>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr Timeout kPatience{1000};
constexpr Timeout kPause{5};

}  // namespace

CallExchange::CallExchange(const GroupConfig& config)
    : store_(std::make_shared<PrefixStore>("call", config.background_store)),
      rank_(config.rank),
      world_size_(config.world_size),
      names_(config) {}

std::string CallExchange::mismatch(const CollectiveSignature& own) {
  try {
    const std::string found = ask(own);
    if (!found.empty()) return found;
  } catch (const Error& error) {
    logging::debug(std::string("[call_exchange] cannot learn what the other ranks called: ") +
                   error.what());
  }
  return names_.mismatch(rank_, own);
}

// All ranks run the same build, so a signature can be stored as raw bytes.
std::string CallExchange::ask(const CollectiveSignature& own) {
  store_->set(std::to_string(rank_), {reinterpret_cast<const char*>(&own), sizeof(own)});
  std::string found;
  const auto finds = [&] { return !(found = look(own)).empty(); };
  (void)becomes_true(finds, kPatience, kPause);
  return found;
}

std::string CallExchange::look(const CollectiveSignature& own) {
  for (int other = 0; other < world_size_; ++other) {
    const std::optional<CollectiveSignature> theirs = call_of(other);
    if (!theirs || *theirs == own) continue;
    return names_.mismatch(rank_, own, other, *theirs);
  }
  return "";
}

std::optional<CollectiveSignature> CallExchange::call_of(int rank) {
  const auto text = store_->find(std::to_string(rank));
  CollectiveSignature call;
  if (!text || text->size() != sizeof(call)) return std::nullopt;
  std::memcpy(&call, text->data(), sizeof(call));
  return call;
}

}  // namespace ddp
