// SPDX-License-Identifier: MIT
//
// Which backend computes what. The limits come from measurements of the layers of lenet5, resnet18
// and U-Net with one thread: bench_conv2d repeats them.
#include <optional>

#include "ddp/kernels/conv2d.h"

namespace ddp::cpu {
namespace {

// oneDNN computes blocks of 16 channels, which must not be mostly empty; in a depthwise
// convolution a block is 16 groups.
bool fills_blocks(const Conv2dShape& shape) {
  constexpr std::size_t kBlock = 16;
  const Conv2dShape group = shape.group();
  if (group.in_channels == 1 && group.out_channels == 1) return shape.groups >= kBlock;
  return group.in_channels >= kBlock && group.out_channels >= kBlock;
}

bool is_product(const Conv2dShape& shape) { return shape.is_pointwise() && shape.groups == 1; }

// The sum over a sample's pixels is then so short that the others spend their time on reading and
// writing the gradient.
bool has_few_pixels(const Conv2dShape& shape) {
  constexpr std::size_t kFew = 8;
  return shape.output().count() <= kFew && shape.groups == 1;
}

class BestConv2d final : public Conv2dBackend {
 public:
  void forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
               const Conv2dShape& shape) override {
    best(x.dtype, shape).forward(x, weight, bias, y, shape);
  }
  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape) override {
    best(weight.dtype, shape).grad_input(weight, grad_y, grad_x, shape);
  }
  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape) override {
    Conv2dBackend& backend = has_few_pixels(shape) ? *columns_ : best(x.dtype, shape);
    backend.grad_weight(x, grad_y, grad_weight, shape);
  }

 private:
  // Must not look at the batch: a sample's result would depend on it.
  Conv2dBackend& best(DType dtype, const Conv2dShape& shape) {
    const bool suits_onednn =
        dtype == DType::kFloat32 && (fills_blocks(shape) || is_product(shape));
    return suits_onednn && onednn() != nullptr ? *onednn() : *loops_;
  }

  // Opened when the first convolution comes that it suits.
  Conv2dBackend* onednn() {
    if (!onednn_) onednn_ = make_onednn_conv2d();
    return onednn_->get();
  }

  std::unique_ptr<Conv2dBackend> loops_ = make_loop_conv2d();
  std::unique_ptr<Conv2dBackend> columns_ = make_column_conv2d();
  std::optional<std::unique_ptr<Conv2dBackend>> onednn_;  // null if there is none
};

}  // namespace

std::unique_ptr<Conv2dBackend> make_conv2d() { return std::make_unique<BestConv2d>(); }

}  // namespace ddp::cpu
