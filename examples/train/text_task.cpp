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

namespace train {
namespace {

using ddp::Batch;
using ddp::nn::Tensor;

// The loss is in nats per byte.
class TextTask final : public Task {
 public:
  TextTask(std::unique_ptr<ddp::Dataset> train_set, std::unique_ptr<ddp::Dataset> test_set,
           std::int64_t context, double label_smoothing)
      : Task(std::move(train_set), std::move(test_set),
             make_classification(context, label_smoothing)),
        context_(context) {}

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
  std::int64_t context_;
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
