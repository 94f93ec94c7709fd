// SPDX-License-Identifier: MIT
//
// What a model's output is compared with, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ddp/data/batch.h"
#include "ddp/nn/tape.h"

namespace train {

// Slots of the sums over the samples of a step or of an evaluation.
inline constexpr std::size_t kLossSlot = 0;
inline constexpr std::size_t kCountSlots = 1;  // the first of the objective's counts

// The loss of an output, and a measure of how good it is. Counts are sums over samples, so that a
// score is the same for any number of ranks.
class Objective {
 public:
  virtual ~Objective() = default;

  // The mean over the batch's samples.
  [[nodiscard]] virtual ddp::nn::Variable loss(ddp::nn::Tape& tape, const ddp::nn::Variable& output,
                                               const ddp::Batch& batch) const = 0;
  // One-element tensors, to be summed over batches.
  [[nodiscard]] virtual std::vector<ddp::nn::Tensor> counts(ddp::nn::Context& context,
                                                            const ddp::nn::Tensor& output,
                                                            const ddp::Batch& batch) const = 0;
  // A number from 0 to 1, computed from the sums of the counts over `samples` samples.
  [[nodiscard]] virtual double score(std::span<const double> counts, double samples) const = 0;
  // "accuracy"
  [[nodiscard]] virtual std::string_view score_name() const = 0;
};

// Cross-entropy and accuracy. A sample's loss is the mean over its labels.
[[nodiscard]] std::unique_ptr<Objective> make_classification(std::int64_t labels_per_sample,
                                                             double label_smoothing);

// Binary cross-entropy of each pixel, and the intersection over union of the masks.
[[nodiscard]] std::unique_ptr<Objective> make_segmentation();

}  // namespace train
