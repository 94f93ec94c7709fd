// SPDX-License-Identifier: MIT
//
// What can be trained: data, the loss for them, and a measure of how good an output is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ddp/data/batch.h"
#include "ddp/data/data_split.h"
#include "ddp/data/dataset.h"
#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"
#include "ddp/nn/tape.h"

namespace train {

enum class DatasetKind { kFashionMnist, kCifar10, kImageMasks, kText };

[[nodiscard]] std::string_view to_string(DatasetKind kind);

struct DatasetChoice {
  DatasetKind kind = DatasetKind::kFashionMnist;
  std::filesystem::path directory = {};
  bool is_augmented = false;   // training samples are cropped, flipped or shifted at random
  std::int64_t context = 128;  // bytes of a sample of a text
  std::uint64_t seed = 0;
};

// Slots of the sums over the samples of a step or of an evaluation.
inline constexpr std::size_t kLossSlot = 0;
inline constexpr std::size_t kCountSlots = 1;  // the first of the task's counts

// Counts are sums over samples, so that a score is the same for any number of ranks.
class Task {
 public:
  virtual ~Task() = default;

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

  // Those of the batch, in the shape that models take.
  [[nodiscard]] virtual ddp::nn::Tensor inputs(const ddp::Batch& batch) const = 0;
  // A model for these data, with weights drawn from the scope's seed. Throws std::invalid_argument
  // if there is none of that name.
  [[nodiscard]] virtual std::unique_ptr<ddp::nn::Module> make_model(
      std::string_view name, const ddp::nn::Scope& scope) const = 0;
  // The type of the inputs if models compute in `dtype`.
  [[nodiscard]] virtual ddp::DType input_dtype(ddp::DType dtype) const { return dtype; }
  // The elements of the largest activations that a sample may need, roughly.
  [[nodiscard]] virtual std::int64_t elements_of_sample() const;

  [[nodiscard]] const ddp::Dataset& train_set() const { return *train_set_; }
  [[nodiscard]] const ddp::Dataset& test_set() const { return *test_set_; }

 protected:
  // std::invalid_argument if samples of the two sets differ in shape.
  Task(std::unique_ptr<ddp::Dataset> train_set, std::unique_ptr<ddp::Dataset> test_set);

 private:
  std::unique_ptr<ddp::Dataset> train_set_;
  std::unique_ptr<ddp::Dataset> test_set_;
};

// Reads the data, or at least their locations.
[[nodiscard]] std::unique_ptr<Task> make_task(const DatasetChoice& choice, double label_smoothing);

}  // namespace train
