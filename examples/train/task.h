// SPDX-License-Identifier: MIT
//
// What can be trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ddp/collectives/process_group.h"
#include "ddp/data/batch.h"
#include "ddp/data/data_split.h"
#include "ddp/data/dataset.h"
#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"
#include "ddp/nn/tensor.h"
#include "objective.h"

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

// Data, the models for them, and the objective of training.
class Task {
 public:
  virtual ~Task() = default;

  // The batch's, in the shape that models take.
  [[nodiscard]] virtual ddp::nn::Tensor inputs(const ddp::Batch& batch) const = 0;
  // A model for these data, with weights drawn from the scope's seed. Throws std::invalid_argument
  // if there is none of that name.
  [[nodiscard]] virtual std::unique_ptr<ddp::nn::Module> make_model(
      std::string_view name, const ddp::nn::Scope& scope) const = 0;
  // The type of the inputs if models compute in `dtype`.
  [[nodiscard]] virtual ddp::DType input_dtype(ddp::DType dtype) const { return dtype; }
  // The elements of the largest activations that a sample may need, roughly.
  [[nodiscard]] virtual std::int64_t elements_of_sample() const;

  [[nodiscard]] const Objective& objective() const { return *objective_; }
  [[nodiscard]] const ddp::Dataset& train_set() const { return *train_set_; }
  [[nodiscard]] const ddp::Dataset& test_set() const { return *test_set_; }

 protected:
  // std::invalid_argument if samples of the two sets differ in shape.
  Task(std::unique_ptr<ddp::Dataset> train_set, std::unique_ptr<ddp::Dataset> test_set,
       std::unique_ptr<Objective> objective);

 private:
  std::unique_ptr<ddp::Dataset> train_set_;
  std::unique_ptr<ddp::Dataset> test_set_;
  std::unique_ptr<Objective> objective_;
};

// Reads the data or, where images are read on demand, only their paths.
[[nodiscard]] std::unique_ptr<Task> make_task(const DatasetChoice& choice, double label_smoothing);

// Of some samples of each set, as they are read: flags decide what a sample looks like.
struct DataFingerprints {
  std::string train;
  std::string test;
};
[[nodiscard]] DataFingerprints fingerprints_of(const Task& task, const DatasetChoice& choice,
                                               ddp::DType dtype);

// Collective. Throws MismatchError on all ranks if copies of the data differ, which may be one on
// each node. All ranks need the same flags.
void check_same_data_on_all_ranks(const DataFingerprints& data, const DatasetChoice& choice,
                                  ddp::ProcessGroup& group);

}  // namespace train
