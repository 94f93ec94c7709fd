// SPDX-License-Identifier: MIT
#include "ddp/collectives/group_state.h"

#include <exception>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/collectives/failure/break_report.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/hang/event_report.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/hang/solo_calls.h"
#include "ddp/collectives/peers/rank_identity.h"

namespace ddp {
namespace {

// Only one meeting is pending at a time; the others are history.
constexpr std::size_t kMeetings = 64;

std::optional<std::int64_t> last_step(const FlightRecorder& recorder) {
  const std::uint64_t step = recorder.position().step;
  return step == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(step));
}

GroupConfig with_defaults(GroupConfig config) {
  if (!config.background_store && config.store) {
    config.background_store = config.store->clone(kBackgroundStoreTimeout);
  }
  if (config.job_ranks.empty()) {
    config.job_ranks.resize(static_cast<std::size_t>(config.world_size));
    std::iota(config.job_ranks.begin(), config.job_ranks.end(), 0);
  }
  if (!config.job.solo_calls) config.job.solo_calls = std::make_shared<SoloCalls>();
  if (!config.job.labels) config.job.labels = std::make_shared<OperationLabels>();
  return config;
}

std::string title_of(const GroupConfig& config) {
  const std::string name = config.part.empty() ? config.name : config.name + '/' + config.part;
  return ", group " + name + " of " + std::to_string(config.world_size) + " ranks";
}

// A rank that is told of another rank's timeout neither is the cause nor knows whom that one has
// waited for: its own diagnosis may be about another operation.
ErrorRecord record_of(const std::exception_ptr& error, const FlightRecorder& recorder) {
  ErrorRecord record{.message = describe(error),
                     .step = last_step(recorder),
                     .caused_by_peer = is_caused_by_peer(error)};
  try {
    std::rethrow_exception(error);
  } catch (const PeersTimeoutError&) {
    record.caused_by_peer = true;
  } catch (const TimeoutError&) {
    record.hang = recorder.hang().diagnosis();
  } catch (...) {
  }
  return record;
}

std::shared_ptr<FlightRecorder> make_recorder(const GroupConfig& config) {
  const std::size_t capacity = config.world_size > 1 ? FlightRecorder::kCapacity : 0;
  return std::make_shared<FlightRecorder>(capacity, config.job.labels);
}

std::shared_ptr<BreakReport> make_report(const GroupConfig& config) {
  return std::make_shared<BreakReport>(
      [group = title_of(config), rank = config.job_rank(config.rank), device = config.device,
       file = config.launcher.error_file](const FlightRecorder& recorder,
                                          const std::exception_ptr& error) {
        // While an exception is thrown, that one is the rank's error.
        if (std::uncaught_exceptions() == 0) file.keep(record_of(error, recorder));
        const std::string title = to_string(identify_self(rank, device)) + group;
        append_to_events_file(recorder, title, describe(error));
      });
}

}  // namespace

GroupState::GroupState(GroupConfig group_config)
    : config(with_defaults(std::move(group_config))),
      user_store("user", config.store),
      names(config),
      recorder(make_recorder(config)),
      report(make_report(config)),
      meetings(std::make_shared<FlightRecorder>(config.world_size > 1 ? kMeetings : 0)),
      context{.timeout = std::min(config.timeout, kLongestTimeout)} {
  if (!config.job.hang_watch) return;
  config.job.hang_watch->add(config.name, config.job_ranks, recorder);
  config.job.hang_watch->add(config.name, config.job_ranks, meetings, " meetings");
}

[[gnu::hot]] void GroupState::begin_step(std::uint64_t step) {
  config.launcher.worker_slot.set_step(step);
  recorder->begin_step(step);
}

std::optional<std::int64_t> GroupState::step() const { return last_step(*recorder); }

}  // namespace ddp
