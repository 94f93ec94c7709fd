// SPDX-License-Identifier: MIT
//
// What a training step did, in a few numbers for each parameter. The engine writes such sketches
// for ddp-prove, which compares those of two runs. Their file:
//
//   file := (STEP '\n')* ["cut off" '\n']     (STEP: see to_json)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// The inner products of a tensor x with fixed vectors of random signs. They are linear in x, and
// the mean of their squares estimates |x|² (Alon, Matias, Szegedy: The space complexity of
// approximating the frequency moments, 1996), here to ± 35 %. So they tell how far two tensors are
// apart, and whether one is a multiple of the other.
inline constexpr std::size_t kProjections = 16;
using TensorSketch = std::array<double, kProjections>;

// `stream` chooses the signs (see random.h).
[[nodiscard]] TensorSketch sketch(std::span<const double> tensor, std::uint64_t stream);

struct ParameterSketch {
  std::string name;
  std::uint64_t count = 0;  // of elements
  TensorSketch value{};     // before the optimizer's step
  TensorSketch gradient{};  // the mean over all ranks
};

// A run that ddp-prove compares ends when each engine has made the steps to compare. It is cut off
// once one has made so many times these steps, since another may never make any.
inline constexpr int kCutOffAfter = 20;
inline constexpr std::string_view kCutOff = "cut off";

struct StepSketch {
  int engine = 0;   // of this process, in the order of construction: 0, 1, …
  int engines = 1;  // that this process has made so far
  std::uint64_t step = 0;
  double samples = 0;        // of all ranks
  bool has_buffers = false;  // the model has some, such as batch norm's statistics
  std::vector<ParameterSketch> parameters;
};

// A line without its end. Infinite values become NaN.
[[nodiscard]] std::string to_json(const StepSketch& step);
// Throws FileError if the line is not such a step.
[[nodiscard]] StepSketch parse_step_sketch(std::string_view line);

}  // namespace ddp
