// SPDX-License-Identifier: MIT
#include "ddp/collectives/rank_progress.h"

#include <algorithm>
#include <sstream>

#include "ddp/base/error.h"

namespace ddp {

const GroupProgress* RankProgress::find(const std::string& group) const {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const GroupProgress& each) { return each.name == group; });
  return found == groups.end() ? nullptr : &*found;
}

std::string serialize(const RankProgress& progress) {
  std::ostringstream text;
  text << serialize(progress.who) << progress.heartbeat << ' ' << progress.step << ' '
       << progress.is_in_step << ' ' << progress.is_inside << '\n';
  for (const GroupProgress& group : progress.groups) {
    text << group.collectives << '\n' << group.name << '\n' << group.waits_for << '\n';
  }
  return text.str();
}

RankProgress parse_rank_progress(const std::string& text) {
  std::istringstream lines(text);
  RankProgress progress;
  lines >> progress.who >> progress.heartbeat >> progress.step >> progress.is_in_step >>
      progress.is_inside;
  if (!lines) throw NetworkError("[progress] not a rank's progress: \"" + text + "\"");
  GroupProgress group;
  while (lines >> group.collectives) {
    lines.ignore();
    std::getline(lines, group.name);
    std::getline(lines, group.waits_for);
    progress.groups.push_back(group);
  }
  return progress;
}

std::string last_seen(const RankProgress& progress) {
  std::string text = "last seen ";
  if (progress.step > 0) {
    text += (progress.is_in_step ? "in step " : "after step ") + std::to_string(progress.step);
    text += ", ";
  }
  text += progress.is_inside ? "inside the library" : "outside the library";
  for (const GroupProgress& group : progress.groups) {
    if (!group.waits_for.empty()) return text + ", where it waits for " + group.waits_for;
  }
  return text;
}

}  // namespace ddp
