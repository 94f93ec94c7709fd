// SPDX-License-Identifier: MIT
#include "task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/collectives/equal_on_all_ranks.h"
#include "ddp/data/sampled_fingerprint.h"
#include "image_tasks.h"
#include "text_task.h"

namespace train {
namespace {

// The flags that chose the data, for messages.
std::string flags_of(const DatasetChoice& choice) {
  return "--dataset " + std::string(to_string(choice.kind)) +
         (choice.directory.empty() ? " without --data-dir"
                                   : " --data-dir " + choice.directory.string());
}

// The images of a folder are decoded one by one, in about a quarter of a second for so many
// elements; other data are in memory.
std::int64_t samples_to_compare(DatasetKind kind, const ddp::Dataset& dataset) {
  if (kind != DatasetKind::kImageMasks) return 1000;
  constexpr std::int64_t kElements = 32 * 3 * 512 * 512;
  std::int64_t elements = 1;
  for (const std::int64_t size : dataset.input_shape()) elements *= size;
  return std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(elements, 1), 4, 32);
}

}  // namespace

std::string_view to_string(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kCifar10:
      return "cifar10";
    case DatasetKind::kImageMasks:
      return "image-masks";
    case DatasetKind::kText:
      return "text";
    case DatasetKind::kFashionMnist:
      break;
  }
  return "fashion-mnist";
}

Task::Task(std::unique_ptr<ddp::Dataset> train_set, std::unique_ptr<ddp::Dataset> test_set,
           std::unique_ptr<Objective> objective)
    : train_set_(std::move(train_set)),
      test_set_(std::move(test_set)),
      objective_(std::move(objective)) {
  const auto train_shape = train_set_->input_shape(), test_shape = test_set_->input_shape();
  if (std::ranges::equal(train_shape, test_shape)) return;
  throw std::invalid_argument(
      fmt::format("[train] a training sample is [{}], but a test sample [{}]",
                  fmt::join(train_shape, ", "), fmt::join(test_shape, ", ")));
}

std::int64_t Task::elements_of_sample() const {
  return static_cast<std::int64_t>(ddp::elements_of(train_set_->input_shape()));
}

std::unique_ptr<Task> make_task(const DatasetChoice& choice, double label_smoothing) {
  try {
    return choice.kind == DatasetKind::kText ? make_text_task(choice, label_smoothing)
                                             : make_image_task(choice, label_smoothing);
  } catch (const ddp::FileError&) {
    std::throw_with_nested(ddp::FileError(flags_of(choice)));
  } catch (const std::invalid_argument&) {
    std::throw_with_nested(std::invalid_argument(flags_of(choice)));
  }
}

DataFingerprints fingerprints_of(const Task& task, const DatasetChoice& choice, ddp::DType dtype) {
  const auto fingerprint = [&](const ddp::Dataset& dataset) {
    return fmt::format("{:016x}",
                       ddp::sampled_fingerprint(dataset, task.input_dtype(dtype),
                                                samples_to_compare(choice.kind, dataset)));
  };
  return {.train = fingerprint(task.train_set()), .test = fingerprint(task.test_set())};
}

void check_same_data_on_all_ranks(const DataFingerprints& data, const DatasetChoice& choice,
                                  ddp::ProcessGroup& group) {
  const std::array<ddp::NamedValue, 2> values{
      {{"the training samples", "fingerprint " + data.train},
       {"the test samples", "fingerprint " + data.test}}};
  // Without --data-dir, which may differ.
  const std::string what = "[train] data of --dataset " + std::string(to_string(choice.kind));
  ddp::check_equal_on_all_ranks(group, what, values);
}

}  // namespace train
