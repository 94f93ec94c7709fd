// SPDX-License-Identifier: MIT
#include "support/workload.h"

#include <cstdint>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"

namespace ddp::bench {
namespace {

nn::Tensor make_tensor(nn::Context& context, const std::vector<double>& values,
                       const nn::Shape& shape, DType dtype) {
  if (dtype == DType::kFloat64) return context.from_host<double>(values, shape);
  return context.from_host<float>(std::vector<float>(values.begin(), values.end()), shape);
}

nn::Tensor make_images(nn::Context& context, const Workload& workload, const nn::ImageSizes& sizes,
                       int rank) {
  const auto seed = static_cast<std::uint64_t>(rank);
  const nn::Shape shape{workload.batch, sizes.channels, sizes.image.height, sizes.image.width};
  std::vector<double> values(shape.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * ddp::random_unit(seed, 1, i) - 1;
  return make_tensor(context, values, shape, workload.dtype);
}

nn::Tensor make_masks(nn::Context& context, const Workload& workload, const nn::ImageSizes& sizes) {
  const nn::Shape shape{workload.batch, 1, sizes.image.height, sizes.image.width};
  std::vector<double> values(shape.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = ddp::random_unit(0, 2, i) < 0.1;
  return make_tensor(context, values, shape, workload.dtype);
}

nn::Tensor make_labels(nn::Context& context, std::size_t batch, std::size_t classes) {
  std::vector<std::int64_t> values(batch);
  for (std::size_t i = 0; i < batch; ++i) values[i] = static_cast<std::int64_t>(i % classes);
  return context.from_host<std::int64_t>(values, {batch});
}

// Each token is the label of the one before it.
Batch make_text(nn::Context& context, std::size_t batch, int rank) {
  const nn::TextSizes sizes;
  const auto seed = static_cast<std::uint64_t>(rank);
  std::vector<std::int64_t> tokens, labels;
  for (std::size_t i = 0; i < batch * sizes.context; ++i) {
    const auto token = [&](std::size_t place) {
      return static_cast<std::int64_t>(random_bits(seed, 3, place) % sizes.vocabulary);
    };
    tokens.push_back(token(i));
    labels.push_back(token(i + 1));
  }
  return {context.from_host<std::int64_t>(tokens, {batch, sizes.context}),
          context.from_host<std::int64_t>(labels, {labels.size()})};
}

}  // namespace

nn::ImageSizes Workload::sizes() const {
  if (nn::is_language_model(model)) return {.channels = 0, .image = {}, .classes = 0};
  nn::ImageSizes sizes;
  if (model == "convnet") sizes = {.channels = 3, .image = {32, 32}};
  if (model == "resnet18") sizes = {.channels = 3, .image = {64, 64}};
  if (model == "unet") sizes = {.channels = 3, .image = {64, 64}, .classes = 1};
  if (image_size > 0) sizes.image = {image_size, image_size};
  return sizes;
}

std::string Workload::precision() const {
  if (amp) return std::string(to_string(*amp)) + " amp";
  return float32_precision == Float32Precision::kTf32 ? "tf32" : std::string(to_string(dtype));
}

std::unique_ptr<nn::Module> make_model(const Workload& workload, const nn::Scope& scope) {
  return nn::is_language_model(workload.model)
             ? nn::make_language_model(workload.model, scope, {})
             : nn::make_model(workload.model, scope, workload.sizes());
}

Batch make_batch(nn::Context& context, const Workload& workload, int rank) {
  if (nn::is_language_model(workload.model)) return make_text(context, workload.batch, rank);
  const nn::ImageSizes sizes = workload.sizes();
  return {make_images(context, workload, sizes, rank),
          workload.model == "unet" ? make_masks(context, workload, sizes)
                                   : make_labels(context, workload.batch, sizes.classes)};
}

nn::Variable loss_of(nn::Tape& tape, const nn::Variable& logits, const Batch& batch) {
  const bool has_labels = batch.targets.dtype() == DType::kInt64;
  return has_labels ? nn::softmax_cross_entropy(tape, logits, batch.targets)
                    : nn::bce_with_logits(tape, logits, batch.targets);
}

}  // namespace ddp::bench
