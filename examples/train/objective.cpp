// SPDX-License-Identifier: MIT
#include "objective.h"

#include "ddp/nn/ops.h"

namespace train {
namespace {

using ddp::Batch;
using ddp::nn::Tensor;
using ddp::nn::Variable;

class Classification final : public Objective {
 public:
  Classification(std::int64_t labels_per_sample, double label_smoothing)
      : labels_per_sample_(static_cast<double>(labels_per_sample)),
        label_smoothing_(label_smoothing) {}

  Variable loss(ddp::nn::Tape& tape, const Variable& output, const Batch& batch) const override {
    return ddp::nn::softmax_cross_entropy(tape, output, labels(batch), label_smoothing_);
  }
  std::vector<Tensor> counts(ddp::nn::Context& context, const Tensor& output,
                             const Batch& batch) const override {
    return {ddp::nn::count_correct(context, output, labels(batch))};
  }
  double score(std::span<const double> counts, double samples) const override {
    return counts[0] / (samples * labels_per_sample_);
  }
  std::string_view score_name() const override { return "accuracy"; }

 private:
  static Tensor labels(const Batch& batch) {
    return Tensor::view(batch.labels, {batch.labels.count});
  }

  double labels_per_sample_;
  double label_smoothing_;
};

class Segmentation final : public Objective {
 public:
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

}  // namespace

std::unique_ptr<Objective> make_classification(std::int64_t labels_per_sample,
                                               double label_smoothing) {
  return std::make_unique<Classification>(labels_per_sample, label_smoothing);
}

std::unique_ptr<Objective> make_segmentation() { return std::make_unique<Segmentation>(); }

}  // namespace train
