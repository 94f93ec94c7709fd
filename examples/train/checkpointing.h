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

  [[nodiscard]] bool any() const {
    return !directory.empty() || (resume != "auto" && resume != "none");
  }
};

// A job's checkpoints. Rank 0 alone reads and writes files: nodes need not share a disk.
class Checkpointing {
 public:
  // `tensors` are the live ones, equal on all ranks, in CPU memory or on the group's device; work
  // on them is put on `stream`. All outlive it. The directory is created.
  Checkpointing(CheckpointOptions options, ddp::ProcessGroup& group,
                std::vector<ddp::NamedBuffer> tensors, JobDescription job, ddp::Stream stream);

  // Collective: what rank 0 loads, all ranks get. Nothing if the job begins anew. Throws on all
  // ranks if what is to be loaded cannot be, or is another job's.
  [[nodiscard]] std::optional<TrainingState> resume();
  // "resumed from DIR/model_epoch_2.safetensors: epoch 2, step 938", on rank 0; empty if the job
  // began anew.
  [[nodiscard]] const std::string& remark() const { return remark_; }

  // Whether there is one to be saved after so many steps, inside an epoch.
  [[nodiscard]] bool is_due(std::int64_t step) const;
  // Saves in the background, on rank 0; throws what the last save threw. With an evaluation that
  // is better than all before, it is the best.
  void save(TrainingState state);
  // Throws what a save has thrown that is over by now; to be called in each step.
  void check() {
    if (writer_) writer_->check();
  }
  // Returns when all is on disk, or throws. What was saved last, on rank 0.
  std::filesystem::path finish();

 private:
  [[nodiscard]] std::optional<TrainingState> load();
  [[nodiscard]] std::optional<ddp::LoadedCheckpoint> find();
  [[nodiscard]] ddp::LoadedCheckpoint load_named_file();
  [[nodiscard]] TrainingState read_state_of(const ddp::LoadedCheckpoint& loaded) const;
  void restore(const ddp::LoadedCheckpoint& loaded) const;
  void move_into_directory(const ddp::LoadedCheckpoint& loaded, const TrainingState& state);
  void broadcast(const ddp::Buffer& buffer);
  [[nodiscard]] bool saves() const { return directory_.has_value(); }

  CheckpointOptions options_;
  ddp::ProcessGroup& group_;
  std::vector<ddp::NamedBuffer> tensors_;
  JobDescription job_;
  ddp::Stream stream_;
  std::string remark_;
  // On rank 0.
  std::optional<double> best_score_;
  std::filesystem::path last_;
  std::optional<ddp::CheckpointDirectory> directory_;
  std::optional<ddp::CheckpointWriter> writer_;
};

}  // namespace train
