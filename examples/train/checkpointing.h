// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/named_buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/checkpoint_writer.h"
#include "job_description.h"
#include "training_state.h"

namespace train {

struct CheckpointOptions {
  std::filesystem::path directory;  // empty: none are saved
  std::string resume = "auto";      // the newest in the directory; or "none", or a file
  std::int64_t every = 0;           // steps between those inside an epoch; 0: there are none
  int keep = 3;                     // 0: all

  [[nodiscard]] bool resumes_file() const { return resume != "auto" && resume != "none"; }
  [[nodiscard]] bool any() const { return !directory.empty() || resumes_file(); }
};

// A job's checkpoints. Only rank 0 reads and writes files, so nodes need not share a disk.
class Checkpointing {
 public:
  // `tensors` are the live ones, equal on all ranks, in CPU memory or on the group's device; work
  // on them is enqueued on `stream`. All of these must outlive this object. Collective: rank 0
  // creates the directory, and its error is thrown on all ranks.
  Checkpointing(CheckpointOptions options, ddp::ProcessGroup& group,
                std::vector<ddp::NamedBuffer> tensors, JobDescription job, ddp::Stream stream);

  // Collective: all ranks get what rank 0 loads. Returns nothing if the job starts from the
  // beginning. Throws on all ranks if the checkpoint cannot be loaded, or belongs to another job.
  [[nodiscard]] std::optional<TrainingState> resume();
  // "resumed from DIR/model_epoch_2.safetensors at step 938, after epoch 2", on rank 0; empty if
  // the job started from the beginning.
  [[nodiscard]] const std::string& remark() const { return remark_; }

  // Whether a checkpoint inside an epoch is due after `step` steps.
  [[nodiscard]] bool is_due(std::int64_t step) const;
  // Saves in the background, on rank 0; rethrows the error of the last save. If the state has an
  // evaluation that is better than all before, it becomes the best one.
  void save(TrainingState state);
  // Collective: saves, and returns when everything is on disk, however long that takes, or throws.
  // Returns the file, on rank 0.
  std::filesystem::path save_and_finish(const TrainingState& state);
  // Rethrows the error of a save that has ended; call it in each step.
  void check() {
    if (writer_) writer_->check();
  }
  // Returns when everything is on disk, or throws. Returns the last file, on rank 0.
  std::filesystem::path finish();

 private:
  void open_directory();
  [[nodiscard]] bool has_saved_before() const;
  // Notes in a checkpoint's metadata which run saves it.
  void sign(ddp::SafetensorsMetadata& metadata) const;
  [[nodiscard]] std::optional<TrainingState> load();
  [[nodiscard]] std::optional<ddp::LoadedCheckpoint> find();
  void check_best_alone() const;
  [[nodiscard]] ddp::LoadedCheckpoint load_named_file();
  [[nodiscard]] TrainingState read_state_of(const ddp::LoadedCheckpoint& loaded) const;
  void restore(const ddp::LoadedCheckpoint& loaded) const;
  void move_into_directory(const ddp::LoadedCheckpoint& loaded, const TrainingState& state);
  [[nodiscard]] bool saves() const { return directory_.has_value(); }

  CheckpointOptions options_;
  ddp::ProcessGroup& group_;
  std::vector<ddp::NamedBuffer> tensors_;
  JobDescription job_;
  ddp::Stream stream_;
  std::string remark_;
  // On rank 0.
  std::string run_;  // run_identity()
  std::optional<double> best_score_;
  std::filesystem::path last_;
  std::optional<ddp::CheckpointDirectory> directory_;
  std::optional<ddp::CheckpointWriter> writer_;
};

}  // namespace train
