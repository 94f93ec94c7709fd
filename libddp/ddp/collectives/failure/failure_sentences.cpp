// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/failure_sentences.h"

namespace ddp {
namespace {

// What helps if a rank has left before this call of an engine.
std::string advice_on_leaving(const Activity& activity) {
  if (activity.call.issuer == 0) return "";
  if (activity.constructs_engine) {
    return "; unless it failed, it constructs fewer engines, but all ranks must construct the same";
  }
  return "; unless it failed, it made fewer steps, but all ranks must make equally many "
         "(StepOptions::is_active is for those that run out of data)";
}

std::string name_and_fate(const std::string& origin, const LostRank& lost) {
  return origin + " " + lost.name + " " + to_string(lost.fate) + ", while ";
}

}  // namespace

Activity activity_in(const CollectiveSignature& call, const FlightRecorder& recorder,
                     const GroupNames& names) {
  return {.rank = names.self(),
          .call = call,
          .operation = to_string(call) + purpose_of_pending(recorder) + names.of_group(),
          .constructs_engine = names.is_construction(call)};
}

std::string loss_sentence(const std::string& origin, const LostRank& lost,
                          const Activity& activity) {
  return name_and_fate(origin, lost) + activity.rank + " is in " + activity.operation +
         (lost.fate == Fate::kLeft ? advice_on_leaving(activity) : "");
}

std::string loss_while_waiting_sentence(const std::string& origin, const LostRank& lost,
                                        const GroupNames& names) {
  return name_and_fate(origin, lost) + names.self() + " waits for it" + names.of_group();
}

std::string timeout_sentence(const std::string& origin, Timeout timeout,
                             const FlightRecorder& recorder, const std::string& operation) {
  const std::string diagnosis = recorder.hang().diagnosis();
  return origin + ": timed out after " + std::to_string(timeout.count()) + " ms" +
         (diagnosis.empty() ? " in " + operation : ": " + diagnosis) +
         " (the program or DDP_TIMEOUT sets the timeout)";
}

}  // namespace ddp
