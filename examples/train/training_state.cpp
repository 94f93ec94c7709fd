// SPDX-License-Identifier: MIT
#include "training_state.h"

#include "ddp/base/error.h"
#include "ddp/io/metadata_number.h"

namespace train {
namespace {

using ddp::find_number;
using ddp::SafetensorsMetadata;

std::int64_t read_count(const SafetensorsMetadata& metadata, const std::string& key) {
  const auto value = ddp::number_in<std::int64_t>(metadata, key);
  if (value < 0) throw ddp::FileError("its " + key + " is \"" + metadata.at(key) + "\"");
  return value;
}

}  // namespace

void write_state(const TrainingState& state, SafetensorsMetadata& metadata) {
  metadata["epoch"] = ddp::metadata_text(state.position.epoch);
  metadata["consumed_samples"] = ddp::metadata_text(state.position.consumed);
  metadata["step"] = ddp::metadata_text(state.step);
  if (state.evaluation) {
    metadata["test_loss"] = ddp::metadata_text(state.evaluation->loss);
    metadata["test_score"] = ddp::metadata_text(state.evaluation->score);
  }
  if (state.best_score) metadata["best_score"] = ddp::metadata_text(*state.best_score);
}

TrainingState read_state(const SafetensorsMetadata& metadata) {
  TrainingState state{.position = {.epoch = read_count(metadata, "epoch"),
                                   .consumed = read_count(metadata, "consumed_samples")},
                      .step = read_count(metadata, "step"),
                      .best_score = find_number<double>(metadata, "best_score")};
  const auto loss = find_number<double>(metadata, "test_loss");
  const auto score = find_number<double>(metadata, "test_score");
  if (loss && score) state.evaluation = Evaluation{.loss = *loss, .score = *score};
  return state;
}

}  // namespace train
