// SPDX-License-Identifier: MIT
#include "training_state.h"

#include <fmt/core.h>

#include <charconv>
#include <system_error>

#include "ddp/base/error.h"

namespace train {
namespace {

using ddp::SafetensorsMetadata;

template <class T>
std::optional<T> read_if_there(const SafetensorsMetadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) {
    throw ddp::FileError("its " + key + " is \"" + text + "\"");
  }
  return value;
}

std::int64_t read_count(const SafetensorsMetadata& metadata, const std::string& key) {
  const auto value = read_if_there<std::int64_t>(metadata, key);
  if (!value) throw ddp::FileError("it has no " + key + " in its metadata");
  return *value;
}

}  // namespace

void write_state(const TrainingState& state, SafetensorsMetadata& metadata) {
  metadata["epoch"] = fmt::format("{}", state.position.epoch);
  metadata["consumed_samples"] = fmt::format("{}", state.position.consumed);
  metadata["step"] = fmt::format("{}", state.step);
  if (state.evaluation) {
    metadata["test_loss"] = fmt::format("{}", state.evaluation->loss);
    metadata["test_score"] = fmt::format("{}", state.evaluation->score);
  }
  if (state.best_score) metadata["best_score"] = fmt::format("{}", *state.best_score);
}

TrainingState read_state(const SafetensorsMetadata& metadata) {
  TrainingState state{.position = {.epoch = read_count(metadata, "epoch"),
                                   .consumed = read_count(metadata, "consumed_samples")},
                      .step = read_count(metadata, "step"),
                      .best_score = read_if_there<double>(metadata, "best_score")};
  const auto loss = read_if_there<double>(metadata, "test_loss");
  const auto score = read_if_there<double>(metadata, "test_score");
  if (loss && score) state.evaluation = Evaluation{.loss = *loss, .score = *score};
  return state;
}

}  // namespace train
