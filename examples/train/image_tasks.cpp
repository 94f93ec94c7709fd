// SPDX-License-Identifier: MIT
#include "image_tasks.h"

#include <utility>

#include "ddp/data/cifar10.h"
#include "ddp/data/fashion_mnist.h"
#include "ddp/data/image_mask_folder.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"

namespace train {
namespace {

using ddp::Batch;
using ddp::Dataset;
using ddp::DataSplit;
using ddp::nn::Tensor;
using ddp::nn::Variable;

ddp::nn::ImageSizes sizes_of(const Dataset& dataset, std::size_t classes) {
  const auto shape = dataset.input_shape();
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(shape[i]); };
  return {.channels = size(0), .image = {size(1), size(2)}, .classes = classes};
}

class ImageTask : public Task {
 public:
  ImageTask(std::unique_ptr<Dataset> train_set, std::unique_ptr<Dataset> test_set,
            std::size_t classes)
      : Task(std::move(train_set), std::move(test_set)),
        sizes_(sizes_of(this->train_set(), classes)) {}

  Tensor inputs(const Batch& batch) const final {
    return Tensor::view(batch.inputs,
                        {batch.count, sizes_.channels, sizes_.image.height, sizes_.image.width});
  }
  std::unique_ptr<ddp::nn::Module> make_model(std::string_view name,
                                              const ddp::nn::Scope& scope) const final {
    return ddp::nn::make_model(name, scope, sizes_);
  }

 private:
  ddp::nn::ImageSizes sizes_;
};

class Classification final : public ImageTask {
 public:
  Classification(std::unique_ptr<Dataset> train_set, std::unique_ptr<Dataset> test_set,
                 std::size_t classes, double label_smoothing)
      : ImageTask(std::move(train_set), std::move(test_set), classes),
        label_smoothing_(label_smoothing) {}

  Variable loss(ddp::nn::Tape& tape, const Variable& output, const Batch& batch) const override {
    return ddp::nn::softmax_cross_entropy(tape, output, labels(batch), label_smoothing_);
  }
  std::vector<Tensor> counts(ddp::nn::Context& context, const Tensor& output,
                             const Batch& batch) const override {
    return {ddp::nn::count_correct(context, output, labels(batch))};
  }
  double score(std::span<const double> counts, double samples) const override {
    return counts[0] / samples;
  }
  std::string_view score_name() const override { return "accuracy"; }

 private:
  static Tensor labels(const Batch& batch) {
    return Tensor::view(batch.labels, {batch.labels.count});
  }

  double label_smoothing_;
};

class Segmentation final : public ImageTask {
 public:
  Segmentation(std::unique_ptr<Dataset> train_set, std::unique_ptr<Dataset> test_set)
      : ImageTask(std::move(train_set), std::move(test_set), 1) {}

  Variable loss(ddp::nn::Tape& tape, const Variable& output, const Batch& batch) const override {
    return ddp::nn::bce_with_logits(tape, output, masks(output.shape(), batch));
  }
  std::vector<Tensor> counts(ddp::nn::Context& context, const Tensor& output,
                             const Batch& batch) const override {
    const Tensor both = ddp::nn::mask_overlap(context, output, masks(output.shape(), batch));
    return {both.element(0), both.element(1)};
  }
  double score(std::span<const double> counts, double /*samples*/) const override {
    return counts[1] == 0 ? 1 : counts[0] / counts[1];
  }
  std::string_view score_name() const override { return "IoU"; }

 private:
  static Tensor masks(const ddp::nn::Shape& shape, const Batch& batch) {
    return Tensor::view(batch.labels, shape);
  }
};

// The usual transforms for CIFAR-10.
ddp::ImageTransforms cifar10_transforms(const DatasetChoice& choice) {
  return {.crop = ddp::Crop{.size = {32, 32}, .padding = 4},
          .flip_probability = 0.5,
          .seed = choice.seed};
}

std::unique_ptr<Dataset> load_cifar10(DataSplit split, const DatasetChoice& choice) {
  const bool is_augmented = choice.is_augmented && split == DataSplit::kTrain;
  return std::make_unique<ddp::ImageDataset>(ddp::load_cifar10(
      split, choice.directory, is_augmented ? cifar10_transforms(choice) : ddp::ImageTransforms{}));
}

// DIR/train and DIR/test, each with images and masks.
std::unique_ptr<Dataset> open_image_masks(DataSplit split, const DatasetChoice& choice) {
  const bool is_training = split == DataSplit::kTrain;
  ddp::ImageMaskOptions options;
  options.transforms.seed = choice.seed;
  options.transforms.flip_probability = is_training && choice.is_augmented ? 0.5 : 0;
  return std::make_unique<ddp::ImageMaskFolder>(choice.directory / (is_training ? "train" : "test"),
                                                std::move(options));
}

std::unique_ptr<Dataset> load_fashion_mnist(DataSplit split, const DatasetChoice& choice) {
  return std::make_unique<ddp::ImageDataset>(ddp::load_fashion_mnist(split, choice.directory));
}

}  // namespace

std::unique_ptr<Task> make_image_task(const DatasetChoice& choice, double label_smoothing) {
  const auto classification = [&](auto load, int classes) {
    return std::make_unique<Classification>(load(DataSplit::kTrain, choice),
                                            load(DataSplit::kTest, choice),
                                            static_cast<std::size_t>(classes), label_smoothing);
  };
  if (choice.kind == DatasetKind::kCifar10) {
    return classification(load_cifar10, ddp::kCifar10Classes);
  }
  if (choice.kind == DatasetKind::kImageMasks) {
    return std::make_unique<Segmentation>(open_image_masks(DataSplit::kTrain, choice),
                                          open_image_masks(DataSplit::kTest, choice));
  }
  return classification(load_fashion_mnist, ddp::kFashionMnistClasses);
}

}  // namespace train
