// SPDX-License-Identifier: MIT
//
// The names of a training's checkpoints, and the file in which they are listed:
//
//   latest := (NAME "\n")+         newest first; nothing else in the directory belongs to the
//   training NAME   := "model_epoch_" E ".safetensors"                  E epochs are done
//           | "model_epoch_" E "_step_" S ".safetensors"       and part of the next; S steps in all
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
