// SPDX-License-Identifier: MIT
#include "text_task.h"

#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/data/text_dataset.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"

namespace train {
namespace {

using ddp::Batch;
using ddp::nn::Tensor;
using ddp::nn::Variable;

// A sample's loss is the mean over its bytes, so the loss is in nats per byte.
class TextTask final : public Task {
 public:
  TextTask(std::unique_ptr<ddp::Dataset> train_set, std::unique_ptr<ddp::Dataset> test_set,
           std::int64_t context, double label_smoothing)
      : Task(std::move(train_set), std::move(test_set)),
        context_(context),
        label_smoothing_(label_smoothing) {}

  Variable loss(ddp::nn::Tape& tape, const Variable& output, const Batch& batch) const override {
    return ddp::nn::softmax_cross_entropy(tape, output, next_bytes(batch), label_smoothing_);
  }
  std::vector<Tensor> counts(ddp::nn::Context& context, const Tensor& output,
                             const Batch& batch) const override {
    return {ddp::nn::count_correct(context, output, next_bytes(batch))};
  }
  double score(std::span<const double> counts, double samples) const override {
    return counts[0] / (samples * static_cast<double>(context_));
  }
  std::string_view score_name() const override { return "accuracy"; }

  Tensor inputs(const Batch& batch) const override {
    return Tensor::view(batch.inputs, {batch.count, context_});
  }
  std::unique_ptr<ddp::nn::Module> make_model(std::string_view name,
                                              const ddp::nn::Scope& scope) const override {
    return ddp::nn::make_language_model(
        name, scope,
        {.vocabulary = ddp::kByteTokens, .context = static_cast<std::size_t>(context_)});
  }
  ddp::DType input_dtype(ddp::DType /*dtype*/) const override { return ddp::DType::kInt64; }
  // Those of the logits.
  std::int64_t elements_of_sample() const override { return context_ * ddp::kByteTokens; }

 private:
  static Tensor next_bytes(const Batch& batch) {
    return Tensor::view(batch.labels, {batch.labels.count});
  }

  std::int64_t context_;
  double label_smoothing_;
};

}  // namespace

std::unique_ptr<Task> make_text_task(const DatasetChoice& choice, double label_smoothing) {
  const auto load = [&](const char* name, std::optional<std::uint64_t> shift_seed) {
    const std::filesystem::path file = choice.directory / name;
    std::vector<std::uint8_t> text = ddp::read_text(file);
    try {
      return std::make_unique<ddp::TextDataset>(
          std::move(text), ddp::TextOptions{.context = choice.context, .shift_seed = shift_seed});
    } catch (const std::invalid_argument&) {
      std::throw_with_nested(std::invalid_argument(file.string()));
    }
  };
  auto train_set =
      load("train.txt", choice.is_augmented ? std::optional(choice.seed) : std::nullopt);
  return std::make_unique<TextTask>(std::move(train_set), load("test.txt", std::nullopt),
                                    choice.context, label_smoothing);
}

}  // namespace train
