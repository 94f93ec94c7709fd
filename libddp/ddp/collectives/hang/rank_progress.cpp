// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/rank_progress.h"

#include <algorithm>

#include "ddp/base/error.h"

namespace ddp {
namespace {

std::string numbers_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : " ") + std::to_string(rank);
  return text;
}

}  // namespace

const GroupProgress* RankProgress::find(const std::string& group) const {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const GroupProgress& each) { return each.name == group; });
  return found == groups.end() ? nullptr : &*found;
}

std::string serialize(const RankProgress& progress) {
  FieldWriter fields;
  fields << progress.who << progress.heartbeat << progress.time_ms << progress.step
         << progress.is_in_step << progress.has_left_step << progress.is_inside
         << progress.busy_with;
  for (const GroupProgress& group : progress.groups) {
    fields << group.collectives << group.name << group.waits_for << numbers_of(group.awaited);
  }
  return fields.text();
}

RankProgress parse_rank_progress(const std::string& text) {
  FieldReader fields(text);
  RankProgress progress;
  fields >> progress.who >> progress.heartbeat >> progress.time_ms >> progress.step >>
      progress.is_in_step >> progress.has_left_step >> progress.is_inside >> progress.busy_with;
  bool is_complete = true;
  while (fields && fields.has_more()) {
    GroupProgress& group = progress.groups.emplace_back();
    std::string awaited;
    fields >> group.collectives >> group.name >> group.waits_for >> awaited;
    const auto ranks = numbers_in<int>(awaited);
    is_complete = is_complete && ranks;
    group.awaited = ranks.value_or(std::vector<int>());
  }
  if (!fields || !is_complete) {
    throw NetworkError("[progress] this is not a description of a rank's progress: \"" + text +
                       "\"");
  }
  return progress;
}

std::string last_seen(const RankProgress& progress) {
  std::string text = "last seen ";
  if (progress.step > 0) {
    text += progress.is_in_step      ? "in step "
            : progress.has_left_step ? "after it left the middle of step "
                                     : "after step ";
    text += std::to_string(progress.step) + ", ";
  }
  text += progress.is_inside ? "inside the library" : "outside the library";
  if (!progress.is_inside && !progress.busy_with.empty()) text += ", " + progress.busy_with;
  for (const GroupProgress& group : progress.groups) {
    if (!group.waits_for.empty()) return text + ", where it waits for " + group.waits_for;
  }
  return text;
}

}  // namespace ddp
