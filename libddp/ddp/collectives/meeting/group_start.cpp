// SPDX-License-Identifier: MIT
#include "ddp/collectives/meeting/group_start.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/threads/awake_timer.h"
#include "ddp/base/threads/run_until.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/group_names.h"

namespace ddp {
namespace {

// A key of the group: the note (group_failure.h) of the first rank that could not construct it.
constexpr const char* kFailed = "start_failed";

// Keys of the group: how many of its ranks have come to a point of the start, and that all have.
struct Point {
  const char* count;
  const char* all;
};
constexpr Point kHere{"start_here", "start_all_here"};
constexpr Point kMade{"start_made", "start_all_made"};

constexpr Timeout kBetweenStartLooks{500};

constexpr Timeout kLeastForMade{5000};

// Ranks that lose the store notice it in their own waits.
std::optional<std::string> find_note(Store& store) {
  try {
    return store.find(kFailed);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void meet(const GroupConfig& config, const Point& point, Timeout timeout) {
  if (config.store->add(point.count, 1) == config.world_size) config.store->set(point.all, "");
  const std::string keys[] = {point.all};
  await_start(config, *config.store, keys, timeout);
}

void tell(Store& store, const std::string& who, const std::exception& error) {
  const GroupFailure failure{GroupFailure::of(error).kind,
                             "[start] " + who + ": " + describe(error)};
  try {
    store.compare_set(kFailed, "", failure.note());
  } catch (const Error&) {
    // Then the others wait until their time is over.
  }
}

}  // namespace

std::shared_ptr<ProcessGroup> start_group(
    GroupConfig config, const std::function<std::shared_ptr<ProcessGroup>(GroupConfig)>& make) {
  const std::shared_ptr<Store> store = config.background_store;
  const Deadline deadline = Deadline::after(config.start_timeout);
  const std::string who =
      GroupNames(config).rank(config.rank) + " cannot join group \"" + config.name + "\"";
  config.check_while_starting = [store, check_others = std::move(config.check_while_starting)](
                                    const std::function<bool()>& has_come) {
    if (check_others) check_others(has_come);
    if (const auto note = find_note(*store)) {
      std::rethrow_exception(GroupFailure::from_note(*note).error());
    }
  };
  std::shared_ptr<ProcessGroup> group;  // destroyed only after the others were told
  try {
    group = make(config);
    // A rank may fail after it has met the others. Waits in `make` may have taken all of the time.
    meet(config, kMade, std::max(deadline.remaining(), kLeastForMade));
    return group;
  } catch (const TimeoutError& error) {
    if (!deadline.passed()) tell(*store, who, error);
    throw;
  } catch (const std::exception& error) {
    tell(*store, who, error);
    throw;
  }
}

void await_start(const GroupConfig& config, Store& store, std::span<const std::string> keys,
                 Timeout timeout) {
  AwakeTimer timer;
  while (!store.wait_for(keys, std::min(kBetweenStartLooks, timeout - timer.passed()))) {
    if (config.check_while_starting) config.check_while_starting([&] { return store.check(keys); });
    if (timer.look() < timeout) continue;
    throw TimeoutError("[start] " + GroupNames(config).rank(config.rank) + " has waited " +
                       std::to_string(timeout.count()) + " ms for the other ranks of group \"" +
                       config.name + "\" (" + keys.front() + ")");
  }
}

void await_all(const GroupConfig& config, Timeout timeout) { meet(config, kHere, timeout); }

bool connect_all(const GroupConfig& config, Deadline deadline, std::function<void()> connect,
                 const std::function<void()>& look) {
  const auto check_others = [&] {
    look();
    if (!config.check_while_starting) return;
    config.check_while_starting([&config] { return config.store->has(kHere.all); });
  };
  if (!run_until(deadline, std::move(connect), check_others, kBetweenStartLooks)) return false;
  await_all(config, deadline.remaining());
  return true;
}

}  // namespace ddp
