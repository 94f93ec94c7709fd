// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ddp/nn/context.h"
#include "ddp/nn/parameter.h"

namespace ddp::nn {

// The average of parameters over the steps of a training, which often generalises better than their
// last values: torch.optim.swa_utils.AveragedModel. It needs no communication: parameters are equal
// on all ranks, and so are their averages. Buffers are not averaged.
//
//   WeightAverage average(context, model.parameters(), {.decay = 0.999});
//   optimizer.step();
//   average.update();
//   ...
//   average.swap();  // the model has the averages
//   const double accuracy = evaluate(...);
//   average.swap();  // the model has its own values
struct WeightAverageOptions {
  // average = decay * average + (1 - decay) * value. None: the plain average of all updates (SWA).
  std::optional<double> decay = 0.999;
};

class WeightAverage {
 public:
  // The context and the parameters must outlive it. std::invalid_argument unless 0 <= decay <= 1,
  // and if a parameter is a null pointer.
  WeightAverage(Context& context, std::span<Parameter* const> parameters,
                const WeightAverageOptions& options = {});
  WeightAverage(const WeightAverage&) = delete;  // a copy would share the state
  WeightAverage& operator=(const WeightAverage&) = delete;

  // The first update copies the values. std::logic_error between two calls of swap().
  void update();

  // Exchanges the averages with the parameters' values. A second call undoes it. std::logic_error
  // before the first update.
  void swap();

  // What a checkpoint must contain: views of the averages, which have the parameters' names, and of
  // "updates", their number (int64 on the CPU). std::logic_error between two calls of swap().
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  void check_not_swapped(const char* call) const;

  Context& context_;
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> averages_;
  std::optional<double> decay_;
  Tensor updates_;
  bool is_swapped_ = false;
};

}  // namespace ddp::nn
