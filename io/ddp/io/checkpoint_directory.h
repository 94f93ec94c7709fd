// SPDX-License-Identifier: MIT
//
// A directory with the checkpoints of one training:
//
//   model_epoch_2.safetensors             after two epochs
//   model_epoch_2_step_1100.safetensors   inside the third epoch, after 1100 steps in total
//   model_best.safetensors                a copy of the best one; a hard link, where possible
//   latest                                the checkpoints that are kept (checkpoint_list.h)
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/io/checkpoint_list.h"
#include "ddp/io/metadata_number.h"
#include "ddp/io/safetensors.h"

namespace ddp {

struct CheckpointDirectoryOptions {
  std::filesystem::path path;
  int keep = 3;  // the number of newest checkpoints to keep; 0: all
};

// Whether a file of this name in a checkpoint directory is the training's, not the user's.
[[nodiscard]] bool is_name_in_checkpoint_directory(std::string_view name);

// What is saved in addition to the tensors.
struct CheckpointInfo {
  CheckpointName name;
  SafetensorsMetadata metadata = {};
  bool is_best = false;  // best so far: it is kept until a better one is saved
};

struct LoadedCheckpoint {
  std::filesystem::path path;
  Safetensors content;

  // A number of the metadata; FileError, which names the file, if it is missing or not a T.
  template <MetadataNumber T>
  [[nodiscard]] T number(const std::string& key) const try {
    return number_in<T>(content.metadata, key);
  } catch (const FileError& error) {
    throw FileError("[checkpoint] " + path.string() + ": " + error.what());
  }
};

// Invariant, even if the process is killed or the disk is full: once a checkpoint has been saved,
// `latest` names a complete one. A file is removed only after `latest` names a newer one, and only
// if `latest` has listed it, or if this object has saved it and cannot list it. One process of one
// training at a time writes in a directory, from one thread at a time; CheckpointWriter ensures the
// former. Failures are FileErrors that name the file.
class CheckpointDirectory {
 public:
  // Creates the directory if it does not exist. std::invalid_argument if `keep` is negative.
  explicit CheckpointDirectory(CheckpointDirectoryOptions options);

  [[nodiscard]] const std::filesystem::path& path() const { return options_.path; }
  // Newest first; then those that could not be removed.
  [[nodiscard]] const std::vector<CheckpointName>& names() const { return names_; }
  // Whether there is a `model_best`, which a new training would overwrite.
  [[nodiscard]] bool has_best() const;

  // Throws FileError if a save could not replace `latest` (see AtomicFile).
  void check_replaceable() const;

  // Reads the names again: a CheckpointWriter does so as soon as no other process can write there.
  // Throws FileError if they have changed since load_newest(), whose checkpoint is then not the
  // last one.
  void reread();

  // Saves tensors in CPU memory. On return the checkpoint would survive a loss of power.
  // std::invalid_argument if epochs or step are negative.
  void save(const CheckpointInfo& info, std::span<const NamedBuffer> tensors);

  // Returns nothing if there is no checkpoint. Skips damaged or missing ones with a warning, and
  // drops them from the list at the next save. Their files stay: a version that is newer than this
  // one may understand them. Throws FileError if all are damaged or missing, if there is only a
  // `model_best`, or if the system fails to read one (no permission, a broken disk, no memory),
  // since that one may be intact.
  [[nodiscard]] std::optional<LoadedCheckpoint> load_newest();

  // The metadata of the newest checkpoint whose header is intact; its data are not read. Nothing if
  // there is none. Throws FileError if the system fails to read one.
  [[nodiscard]] std::optional<SafetensorsMetadata> newest_metadata() const;

  // Goes back to an earlier checkpoint: those of greater progress no longer belong to the training.
  // Their files stay, unless one of the same name is saved. On disk it takes effect with the next
  // save.
  void go_back_to(const CheckpointName& name);

 private:
  [[nodiscard]] std::filesystem::path best() const;
  void refuse_best_alone() const;
  [[nodiscard]] std::string way_out() const;
  void save_best(const std::filesystem::path& file, const CheckpointInfo& info,
                 std::span<const NamedBuffer> tensors) const;
  void remove_unlisted(const CheckpointName& name);
  void prune();
  void write_list();

  CheckpointDirectoryOptions options_;
  std::vector<CheckpointName> names_;
  std::vector<CheckpointName> listed_;  // in the file, when this object last read or wrote it
  bool has_loaded_ = false;
};

}  // namespace ddp
