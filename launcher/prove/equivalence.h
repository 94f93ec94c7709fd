// SPDX-License-Identifier: MIT
//
// Whether two numbers of ranks train the same model: compares the first steps of two runs of a
// program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/base/step_sketch.h"

namespace ddp::prove {

struct Run {
  int ranks = 0;
  std::vector<StepSketch> steps;  // of one engine after the other, in the order of construction
  int first_engine = 0;           // the one that made the first step
  bool is_cut_off = false;        // before each engine had made all steps to compare
};

[[nodiscard]] int count_engines(const Run& run);
// "step 3", or "engine 2, step 3" if the run has several engines.
[[nodiscard]] std::string name_of_step(const Run& run, int engine, std::uint64_t step);

// How far a tensor of one run is from the same tensor of another, relative to its norm.
struct Distance {
  double relative = 0;
  std::string parameter;
  int engine = 0;
  std::uint64_t step = 0;
};

struct Comparison {
  // The largest ones; if the runs differ, up to there.
  Distance values;
  Distance gradients;
  // What differs first by more than the tolerance, and what may be the cause; empty if nothing
  // does.
  std::string difference;
  // It is small or not in the first step, so it may be rounding. A control run can tell.
  bool may_be_rounding = false;
};

// `control` is a run with the reference's number of ranks, whose parameters began with other last
// bits. A difference that may be rounding counts only if it is much larger than the control's.
[[nodiscard]] Comparison compare(const Run& reference, const Run& other, double tolerance,
                                 const Run* control = nullptr);

}  // namespace ddp::prove
