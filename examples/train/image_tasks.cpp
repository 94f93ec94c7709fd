// SPDX-License-Identifier: MIT
#include "image_tasks.h"

#include <utility>

#include "ddp/data/cifar10.h"
#include "ddp/data/fashion_mnist.h"
#include "ddp/data/image_mask_folder.h"
#include "ddp/nn/models/factory.h"

namespace train {
namespace {

using ddp::Batch;
using ddp::Dataset;
using ddp::DataSplit;
using ddp::nn::Tensor;

ddp::nn::ImageSizes sizes_of(const Dataset& dataset, std::size_t classes) {
  const auto shape = dataset.input_shape();
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(shape[i]); };
  return {.channels = size(0), .image = {size(1), size(2)}, .classes = classes};
}

class ImageTask final : public Task {
 public:
  ImageTask(std::unique_ptr<Dataset> train_set, std::unique_ptr<Dataset> test_set,
            std::unique_ptr<Objective> objective, std::size_t classes)
      : Task(std::move(train_set), std::move(test_set), std::move(objective)),
        sizes_(sizes_of(this->train_set(), classes)) {}

  Tensor inputs(const Batch& batch) const override {
    return Tensor::view(batch.inputs,
                        {batch.count, sizes_.channels, sizes_.image.height, sizes_.image.width});
  }
  std::unique_ptr<ddp::nn::Module> make_model(std::string_view name,
                                              const ddp::nn::Scope& scope) const override {
    return ddp::nn::make_model(name, scope, sizes_);
  }

 private:
  ddp::nn::ImageSizes sizes_;
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
  const auto task = [&](auto load, std::unique_ptr<Objective> objective, int classes) {
    return std::make_unique<ImageTask>(load(DataSplit::kTrain, choice),
                                       load(DataSplit::kTest, choice), std::move(objective),
                                       static_cast<std::size_t>(classes));
  };
  if (choice.kind == DatasetKind::kImageMasks) {
    return task(open_image_masks, make_segmentation(), 1);
  }
  std::unique_ptr<Objective> classification = make_classification(1, label_smoothing);
  if (choice.kind == DatasetKind::kCifar10) {
    return task(load_cifar10, std::move(classification), ddp::kCifar10Classes);
  }
  return task(load_fashion_mnist, std::move(classification), ddp::kFashionMnistClasses);
}

}  // namespace train
