// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/io/safetensors.h"
#include "ddp/samplers/epoch_plan.h"

namespace train {

struct Evaluation {
  double loss = 0;
  double score = 0;  // accuracy, or what the task has in its place; 0 to 1
};

// Where a training is between two steps. Together with the seed and the tensors of the model and
// the optimizer, this is all that is needed to resume exactly: random numbers and learning rates
// are functions of seed, epoch, step and sample.
struct TrainingState {
  ddp::DataPosition position;
  std::int64_t step = 0;                   // optimizer's steps since the beginning
  std::optional<Evaluation> evaluation{};  // of this state
  std::optional<double> best_score{};      // of all evaluations so far
};

// As metadata of a file: epoch, consumed_samples, step, and where known test_loss, test_score,
// best_score. Reading throws FileError that names what is missing or no number.
void write_state(const TrainingState& state, ddp::SafetensorsMetadata& metadata);
[[nodiscard]] TrainingState read_state(const ddp::SafetensorsMetadata& metadata);

}  // namespace train
