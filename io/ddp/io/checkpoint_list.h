// SPDX-License-Identifier: MIT
//
// The names of a training's checkpoints, and the file that lists them:
//
//   latest := (NAME "\n")+        no name twice; also read with empty lines, spaces around names,
//                                 a byte order mark, or lines that are no names (with a warning)
//   NAME   := "model_epoch_" EPOCHS ".safetensors"
//           | "model_epoch_" EPOCHS "_step_" STEPS ".safetensors"
//
// `latest` lists the newest name first; other files in the directory do not belong to the training.
// EPOCHS is the number of completed epochs. STEPS is the number of steps of the whole training;
// such a checkpoint was saved inside the next epoch.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

inline constexpr std::string_view kCheckpointListName = "latest";

// Ordered by progress.
struct CheckpointName {
  std::int64_t epochs = 0;                // completed
  std::optional<std::int64_t> step = {};  // of the whole training; set only inside an epoch

  friend auto operator<=>(const CheckpointName&, const CheckpointName&) = default;
};

// "model_epoch_2.safetensors".
[[nodiscard]] std::string to_string(const CheckpointName& name);
[[nodiscard]] std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

// The names in `latest`. If that is missing or has none or one twice (which logs a warning): all
// files with checkpoint names, ordered by progress. Throws FileError.
[[nodiscard]] std::vector<CheckpointName> read_checkpoint_list(
    const std::filesystem::path& directory);

// Replaces `latest` atomically. Throws FileError.
void write_checkpoint_list(const std::filesystem::path& directory,
                           const std::vector<CheckpointName>& names);

}  // namespace ddp
