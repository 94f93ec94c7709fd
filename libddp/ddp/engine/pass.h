// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// What turns the gradients of a pass into the mean over samples (LossFactor).
struct PassFactors {
  double loss = 1;       // for the caller's loss
  double buckets = 1;    // for each bucket before its launch
  bool divides = false;  // the step's summed gradients must be divided
};

// What is known about a backward pass when it begins.
struct Pass {
  bool begins_step = true;  // otherwise the buckets hold gradients of the step's earlier passes
  bool reduces = true;      // ends the step; otherwise the next pass adds to the gradients
  double samples = 0;       // of this rank
  double step_samples = 0;  // of this rank in the step, up to this pass
  PassFactors factors;
};

}  // namespace ddp
