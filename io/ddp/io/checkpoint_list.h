// SPDX-License-Identifier: MIT
//
// The names of a training's checkpoints, and the file in which they are listed:
//
//   latest := (NAME "\n")+
//   NAME   := "model_epoch_" EPOCHS ".safetensors"
//           | "model_epoch_" EPOCHS "_step_" STEPS ".safetensors"
//
// `latest` has the newest name first; no other file in the directory belongs to the training.
// EPOCHS are those that are done. STEPS are all of the training so far: such a checkpoint was saved
// inside the next epoch.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Ordered by progress.
struct CheckpointName {
  std::int64_t epochs = 0;           // done
  std::optional<std::int64_t> step;  // of the whole training; only inside an epoch

  friend auto operator<=>(const CheckpointName&, const CheckpointName&) = default;
};

// "model_epoch_2.safetensors".
[[nodiscard]] std::string to_string(const CheckpointName& name);
[[nodiscard]] std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

// What `latest` lists. If it is not there, or nonsense (a warning), all files of such names, by
// progress. Throws FileError.
[[nodiscard]] std::vector<CheckpointName> read_checkpoint_list(
    const std::filesystem::path& directory);

// Atomically. Throws FileError.
void write_checkpoint_list(const std::filesystem::path& directory,
                           const std::vector<CheckpointName>& names);

}  // namespace ddp
