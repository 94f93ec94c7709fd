// SPDX-License-Identifier: MIT
#include "checkpointing.h"

#include <fmt/core.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/on_rank0.h"
#include "ddp/io/checkpoint_file.h"
#include "run_identity.h"

namespace train {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kNone = "none";
constexpr const char* kRun = "run";  // in the metadata

ddp::CheckpointName name_of(const TrainingState& state) {
  if (state.position.consumed == 0) return {.epochs = state.position.epoch, .step = {}};
  return {.epochs = state.position.epoch, .step = state.step};
}

// As the log counts epochs, from 1.
std::string place_of(const ddp::DataPosition& position) {
  const bool is_between = position.consumed == 0 && position.epoch > 0;
  return is_between ? fmt::format("after epoch {}", position.epoch)
                    : fmt::format("in epoch {}", position.epoch + 1);
}

bool is_in(const std::filesystem::path& file, const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  return std::filesystem::equivalent(parent, directory, ignored);
}

// What rank 0 sends to the others.
struct Outcome {
  bool is_resumed = false;
  TrainingState state;
};
static_assert(std::is_trivially_copyable_v<Outcome>);

}  // namespace

Checkpointing::Checkpointing(CheckpointOptions options, ddp::ProcessGroup& group,
                             std::vector<ddp::NamedBuffer> tensors, JobDescription job,
                             ddp::Stream stream)
    : options_(std::move(options)),
      group_(group),
      tensors_(std::move(tensors)),
      job_(std::move(job)),
      stream_(stream) {
  if (options_.directory.empty()) return;
  ddp::on_rank0(group, [this] { open_directory(); });
}

void Checkpointing::open_directory() {
  directory_.emplace(
      ddp::CheckpointDirectoryOptions{.path = options_.directory, .keep = options_.keep});
  writer_.emplace(*directory_);
  run_ = run_identity();
  if (options_.resume != kAuto && has_saved_before()) options_.resume = kAuto;
}

// Whether an earlier attempt of this run has saved the newest checkpoint, whatever it started from.
// Those of another job, or of a branch that this run was to leave, count as in a first attempt.
bool Checkpointing::has_saved_before() const {
  if (run_.empty() || ddp::WorkerEnv::from_environment().restart_count == 0) return false;
  const auto metadata = directory_->newest_metadata();
  if (!metadata) return false;
  const auto found = metadata->find(kRun);
  return found != metadata->end() && found->second == run_;
}

void Checkpointing::sign(ddp::SafetensorsMetadata& metadata) const {
  metadata.erase(kRun);
  if (!run_.empty()) metadata[kRun] = run_;
}

std::optional<TrainingState> Checkpointing::resume() {
  Outcome outcome;
  ddp::on_rank0(group_, [&] {
    const auto state = load();
    if (state) outcome = {.is_resumed = true, .state = *state};
  });
  ddp::broadcast_on_host(group_, {&outcome, sizeof(outcome), ddp::DType::kUInt8}, 0);
  if (!outcome.is_resumed) return std::nullopt;
  ddp::broadcast_tensors(group_, tensors_, 0, stream_);
  return outcome.state;
}

std::optional<TrainingState> Checkpointing::load() {
  const auto loaded = find();
  if (!loaded) return std::nullopt;
  const TrainingState state = read_state_of(*loaded);
  restore(*loaded);
  best_score_ = state.best_score;
  if (saves() && options_.resume != kAuto) move_into_directory(*loaded, state);
  remark_ = fmt::format("resumed from {} at step {}, {}{}", loaded->path.string(), state.step,
                        place_of(state.position), changed_settings(job_, loaded->content.metadata));
  return state;
}

std::optional<ddp::LoadedCheckpoint> Checkpointing::find() {
  if (options_.resume != kAuto && options_.resume != kNone) return load_named_file();
  if (saves()) check_best_alone();
  if (options_.resume == kAuto) return directory_->load_newest();
  if (saves() && !directory_->names().empty()) {
    throw std::invalid_argument(fmt::format(
        "--resume none: {} already has checkpoints, the newest of them {}; --resume auto goes on",
        options_.directory.string(), to_string(directory_->names().front())));
  }
  return std::nullopt;
}

// A user may have kept only the best checkpoint of a training.
void Checkpointing::check_best_alone() const {
  if (!directory_->names().empty() || !directory_->has_best()) return;
  throw std::invalid_argument(fmt::format(
      "--resume {0}: {1} has model_best.safetensors, which a new training would overwrite, and no "
      "other checkpoint; --resume {1}/model_best.safetensors goes on from it, or move it away",
      options_.resume, options_.directory.string()));
}

// One directory belongs to one training: checkpoints of two would overwrite each other.
ddp::LoadedCheckpoint Checkpointing::load_named_file() {
  const std::filesystem::path file = options_.resume;
  if (std::filesystem::is_directory(file)) {
    throw std::invalid_argument(
        fmt::format("--resume {0}: is a directory; --checkpoint-dir {0} --resume auto goes on from "
                    "the newest checkpoint in it",
                    file.string()));
  }
  ddp::LoadedCheckpoint loaded{file, ddp::load_checkpoint(file)};
  const bool is_taken = saves() && (!directory_->names().empty() || directory_->has_best());
  if (is_taken && !is_in(file, options_.directory)) {
    throw std::invalid_argument(
        fmt::format("--resume {}: --checkpoint-dir {} already has checkpoints of another job",
                    file.string(), options_.directory.string()));
  }
  return loaded;
}

// Throws if the checkpoint belongs to another job.
TrainingState Checkpointing::read_state_of(const ddp::LoadedCheckpoint& loaded) const {
  try {
    check_essentials(job_, loaded.content.metadata);
    return read_state(loaded.content.metadata);
  } catch (const ddp::FileError&) {
    std::throw_with_nested(ddp::FileError("[train] cannot resume from " + loaded.path.string()));
  }
}

// If tensors do not fit because of different flags, the error names the flags.
void Checkpointing::restore(const ddp::LoadedCheckpoint& loaded) const {
  try {
    ddp::restore_tensors(loaded.path, loaded.content, tensors_, {.stream = stream_});
  } catch (const ddp::FileError&) {
    const std::string difference = different_tensor_flags(job_, loaded.content.metadata);
    if (difference.empty()) throw;
    std::throw_with_nested(ddp::FileError(
        fmt::format("[train] cannot resume from {}: {}", loaded.path.string(), difference)));
  }
}

// From now on the named file's state is the newest one of the directory, even if there are later
// ones.
void Checkpointing::move_into_directory(const ddp::LoadedCheckpoint& loaded,
                                        const TrainingState& state) {
  ddp::CheckpointInfo info{.name = name_of(state), .metadata = loaded.content.metadata};
  if (directory_->names().empty() && !directory_->has_best()) {  // the best one is elsewhere
    best_score_.reset();
    info.metadata.erase("best_score");
  }
  sign(info.metadata);
  directory_->go_back_to(info.name);
  directory_->save(info, loaded.content.tensors);
}

bool Checkpointing::is_due(std::int64_t step) const {
  return options_.every > 0 && step % options_.every == 0;
}

void Checkpointing::save(TrainingState state) {
  if (!saves()) return;
  const bool is_best = state.evaluation && (!best_score_ || state.evaluation->score > *best_score_);
  if (is_best) best_score_ = state.evaluation->score;
  state.best_score = best_score_;
  ddp::CheckpointInfo info{.name = name_of(state), .metadata = job_.all(), .is_best = is_best};
  write_state(state, info.metadata);
  sign(info.metadata);
  last_ = options_.directory / to_string(info.name);
  writer_->save(std::move(info), tensors_, stream_);
}

std::filesystem::path Checkpointing::save_and_finish(const TrainingState& state) {
  ddp::on_rank0(group_, [&] {
    save(state);
    finish();
  });
  return last_;
}

std::filesystem::path Checkpointing::finish() {
  if (writer_) writer_->finish();
  return last_;
}

}  // namespace train
