// SPDX-License-Identifier: MIT
#include "job_description.h"

#include <fmt/core.h>

#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/equal_on_all_ranks.h"

namespace train {

ddp::SafetensorsMetadata JobDescription::all() const {
  ddp::SafetensorsMetadata result = settings;
  result.insert(essentials.begin(), essentials.end());
  return result;
}

// Detects nodes with datasets of another size, or with other flags.
void check_same_on_all_ranks(const JobDescription& job, ddp::ProcessGroup& group) {
  std::vector<ddp::NamedValue> values;
  for (const auto& [key, value] : job.all()) values.push_back({key, value});
  for (const auto& [key, value] : job.conduct) values.push_back({key, value});
  ddp::check_equal_on_all_ranks(group, "[train] jobs", values);
}

void check_essentials(const JobDescription& here, const ddp::SafetensorsMetadata& there) {
  for (const auto& [key, value] : here.essentials) {
    const auto found = there.find(key);
    if (found == there.end()) throw ddp::FileError("it has no " + key + " in its metadata");
    if (found->second == value) continue;
    throw ddp::FileError(
        fmt::format("{} is {} in the file and {} here", key, found->second, value));
  }
}

std::string changed_settings(const JobDescription& here, const ddp::SafetensorsMetadata& there) {
  const bool keeps_rate = here.settings.at("lr_schedule") == kPlateau;
  std::string changes;
  for (const auto& [key, value] : here.settings) {
    const auto found = there.find(key);
    if (found == there.end() || found->second == value) continue;
    changes += key == "lr" && keeps_rate
                   ? fmt::format("; --lr {} is not used: --lr-schedule plateau goes on", value)
                   : fmt::format("; {} was {} and is {}", key, found->second, value);
  }
  return changes;
}

std::string different_tensor_flags(const JobDescription& here,
                                   const ddp::SafetensorsMetadata& there) {
  std::string flags_there, flags_here;
  const auto compare = [&](const char* key, const char* flag) {
    const auto found = there.find(key);
    const std::string& value = here.settings.at(key);
    if (found == there.end() || found->second == value) return;
    flags_there += fmt::format(" --{} {}", flag, found->second);
    flags_here += fmt::format(" --{} {}", flag, value);
  };
  for (const char* key : {"amp", "dtype", "momentum", "optimizer"}) compare(key, key);
  const auto schedule = there.find("lr_schedule");
  const bool was_plateau = schedule != there.end() && schedule->second == kPlateau;
  if (was_plateau || here.settings.at("lr_schedule") == kPlateau) {
    compare("lr_schedule", "lr-schedule");
  }
  if (flags_here.empty()) return "";
  return fmt::format("it was trained with{}, and{} is asked for", flags_there, flags_here);
}

}  // namespace train
