// SPDX-License-Identifier: MIT
#include "ddp/collectives/check/call_exchange.h"

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/object_bytes.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr Timeout kExchangePatience{1000};
constexpr Timeout kExchangePause{5};

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

std::string CallExchange::ask(const CollectiveSignature& own) {
  store_->set(std::to_string(rank_), string_of(own));
  std::string found;
  const auto finds = [&] { return !(found = look(own)).empty(); };
  (void)becomes_true(finds, kExchangePatience, kExchangePause);
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
  return text ? object_in<CollectiveSignature>(*text) : std::nullopt;
}

}  // namespace ddp
