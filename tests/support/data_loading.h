// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ddp/data/data_loader.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/images.h"

namespace ddp::test {

// A dataset that calls `hook` with a sample's index before it reads the sample.
class HookedDataset final : public ddp::Dataset {
 public:
  using Hook = std::function<void(std::int64_t index)>;

  HookedDataset(std::int64_t size, Hook hook)
      : images_(numbered_images(size)), hook_(std::move(hook)) {}

  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override {
    return images_.input_shape();
  }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override {
    return images_.label_shape();
  }
  [[nodiscard]] ddp::DType label_dtype(ddp::DType input_dtype) const override {
    return images_.label_dtype(input_dtype);
  }
  void read(std::int64_t index, std::int64_t epoch, const ddp::Buffer& input,
            const ddp::Buffer& label) const override {
    hook_(index);
    images_.read(index, epoch, input, label);
  }

 private:
  ddp::ImageDataset images_;
  Hook hook_;
};

// A plan of batches of 4 in the order of the data, so that batch k begins with sample 4k.
inline EpochPlan in_order(std::int64_t dataset_size) {
  return ExactSampler({.dataset_size = dataset_size,
                       .world_size = 1,
                       .rank = 0,
                       .global_batch_size = 4,
                       .shuffle = false})
      .plan({});
}

// The whole content of a batch: counts, labels, inputs.
inline std::vector<double> content(const Batch& batch) {
  std::vector<double> values = {static_cast<double>(batch.step), static_cast<double>(batch.count),
                                static_cast<double>(batch.global_count)};
  for (const std::int64_t label : batch.labels.as<std::int64_t>()) {
    values.push_back(static_cast<double>(label));
  }
  for (const float input : batch.inputs.as<float>()) values.push_back(input);
  return values;
}

// The batches that the loader delivers, at most `limit`.
inline std::vector<std::vector<double>> deliver(DataLoader& loader, std::size_t limit = 1000) {
  std::vector<std::vector<double>> batches;
  while (batches.size() < limit) {
    const auto batch = loader.next();
    if (!batch) break;
    batches.push_back(content(*batch));
  }
  return batches;
}

}  // namespace ddp::test
