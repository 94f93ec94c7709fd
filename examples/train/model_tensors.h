// SPDX-License-Identifier: MIT
//
// Which tensors of a checkpoint are the model's: those without one of these prefixes.
#pragma once

#include <filesystem>

#include "ddp/io/safetensors.h"

namespace train {

inline constexpr const char* kOptimizerPrefix = "optimizer.";
inline constexpr const char* kScalerPrefix = "scaler.";
inline constexpr const char* kSchedulePrefix = "schedule.";

// Loads the model's tensors from a checkpoint, or from a file that has no others.
[[nodiscard]] ddp::Safetensors load_model_tensors(const std::filesystem::path& file);

}  // namespace train
