// SPDX-License-Identifier: MIT
//
// A directory with the checkpoints of one training:
//
//   model_epoch_2.safetensors             after two epochs
//   model_epoch_2_step_1100.safetensors   inside the third, after 1100 steps in all
//   model_best.safetensors                the best one once more: a hard link, where there are such
//   latest                                which ones are kept: see checkpoint_list.h
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "ddp/io/checkpoint_list.h"
#include "ddp/io/safetensors.h"

namespace ddp {

struct CheckpointDirectoryOptions {
  std::filesystem::path path;
  int keep = 3;  // the newest; 0: all
};

// What is saved beside the tensors.
struct CheckpointInfo {
  CheckpointName name;
  SafetensorsMetadata metadata;
  bool is_best = false;  // of all so far: it is kept until there is a better one
};

struct LoadedCheckpoint {
  std::filesystem::path path;
  Safetensors content;
};

// Whenever the process is killed, or a disk is full: `latest` names a whole checkpoint, if ever one
// was saved. A file is not removed before `latest` names a newer one, and none is that `latest` has
// not listed. One process of one training at a time writes in a directory, which a CheckpointWriter
// sees to, from one thread at a time. Failures are FileErrors that name the file.
class CheckpointDirectory {
 public:
  // Creates the directory if it is not there. std::invalid_argument if `keep` is negative.
  explicit CheckpointDirectory(CheckpointDirectoryOptions options);

  [[nodiscard]] const std::filesystem::path& path() const { return options_.path; }
  // Newest first.
  [[nodiscard]] const std::vector<CheckpointName>& names() const { return names_; }

  // Takes tensors in CPU memory. On return the checkpoint would survive a loss of power.
  // std::invalid_argument if epochs or step are negative.
  void save(const CheckpointInfo& info, std::span<const NamedBuffer> tensors);

  // Nothing if there is none. One that is damaged or gone is passed over with a warning, and no
  // longer belongs to the training when the next is saved. FileError if all are such, or if the
  // system fails to read one (no permission, a broken disk, no memory): it may be whole.
  [[nodiscard]] std::optional<LoadedCheckpoint> load_newest();

  // To go on from an earlier one: those of greater progress belong to the training no longer. Their
  // files stay, unless one of the same name is saved. Takes effect on disk with the next save.
  void go_back_to(const CheckpointName& name);

 private:
  void save_best(const std::filesystem::path& file, const CheckpointInfo& info,
                 std::span<const NamedBuffer> tensors) const;
  void list_and_prune();

  CheckpointDirectoryOptions options_;
  std::vector<CheckpointName> names_;
};

}  // namespace ddp
