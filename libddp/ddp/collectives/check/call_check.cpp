// SPDX-License-Identifier: MIT
//
// The first rank to make call n writes the key "call/<n>": its rank and signature.
#include "ddp/collectives/check/call_check.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include "ddp/base/env_reader.h"
#include "ddp/base/error.h"
#include "ddp/base/object_bytes.h"

namespace ddp {
namespace {

// No rank is this many collectives behind another, so older keys are not read any more.
constexpr std::uint64_t kKept = 4096;

std::string key_of(std::uint64_t collective) { return "call/" + std::to_string(collective); }

struct Call {
  std::int64_t rank = 0;
  CollectiveSignature signature;
};

Call parse_call(const std::string& value) {
  if (const auto call = object_in<Call>(value)) return *call;
  throw NetworkError("[call_check] this is not a description of a call: " + value);
}

}  // namespace

CallCheckLimits CallCheckLimits::from_environment() {
  if (!EnvReader(::getenv).flag("DDP_CHECK")) return {};
  constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  return {.steps = kNoLimit, .collectives = kNoLimit};
}

CallCheck::CallCheck(const GroupConfig& config, std::shared_ptr<const FlightRecorder> recorder,
                     const CallCheckLimits& limits,
                     std::function<void(const std::string&)> on_mismatch)
    : store_(config.background_store),
      rank_(config.rank),
      names_(config),
      recorder_(std::move(recorder)),
      limits_(limits),
      on_mismatch_(std::move(on_mismatch)),
      thread_("ddp-check", kPeriod, [this] { return look(); }) {}

bool CallCheck::look() {
  const FlightRecorder::Position position = recorder_->position();
  if (position.collectives > compared_) {
    for (const FlightRecorder::Event& event : recorder_->events()) {
      const bool is_call = event.what == FlightRecorder::What::kSubmitted &&
                           !is_transfer(event.signature.kind) &&
                           event.signature.sequence > compared_;
      if (is_call && !compare(event.signature)) return false;
    }
  }
  if (position.begun_steps > 0) return position.begun_steps <= limits_.steps;
  return compared_ < limits_.collectives;
}

bool CallCheck::compare(const CollectiveSignature& call) {
  const std::string own = string_of(Call{rank_, call});
  const std::string first = store_->compare_set(key_of(call.sequence), "", own);
  compared_ = call.sequence;  // only now: if the store is late, the next look compares it again
  const Call other = parse_call(first);
  if (rank_ == 0 && call.sequence > kKept) store_->delete_key(key_of(call.sequence - kKept));
  if (other.signature == call) return true;
  on_mismatch_(names_.mismatch(rank_, call, static_cast<int>(other.rank), other.signature));
  return false;
}

}  // namespace ddp
