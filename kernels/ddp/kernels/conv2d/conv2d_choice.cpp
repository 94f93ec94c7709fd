// SPDX-License-Identifier: MIT
//
// Which backend computes what. The limits come from measurements of the layers of lenet5, resnet18
// and U-Net with one thread: bench_conv2d repeats them.
#include <optional>

#include "ddp/kernels/conv2d.h"

namespace ddp::cpu {
namespace {

// oneDNN computes blocks of 16 channels, which must not be mostly empty.
constexpr std::size_t kChannelBlock = 16;
// Of an image: oneDNN reads them as they are.
constexpr std::size_t kColours = 3;

// In a depthwise convolution a block is 16 groups.
bool is_depthwise(const Conv2dShape& shape) {
  return shape.groups >= kChannelBlock && shape.groups == shape.in_channels &&
         shape.groups == shape.out_channels;
}

bool fills_blocks(const Conv2dShape& shape) {
  const Conv2dShape group = shape.group();
  return group.in_channels >= kChannelBlock && group.out_channels >= kChannelBlock;
}

bool reads_colours(const Conv2dShape& shape) {
  return shape.in_channels <= kColours && shape.out_channels >= kChannelBlock;
}

// True if the convolution is a matrix product, which needs no blocks of channels that may be mostly
// empty.
bool is_product(const Conv2dShape& shape) { return shape.is_pointwise() && shape.groups == 1; }

// oneDNN is the fastest in all passes.
bool fits_all_passes(const Conv2dShape& shape) {
  return fills_blocks(shape) || is_depthwise(shape) || is_product(shape);
}

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
    const bool suits_onednn = fits_all_passes(shape) || reads_colours(shape);
    choose(x.dtype, suits_onednn).forward(x, weight, bias, y, shape);
  }
  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape) override {
    choose(weight.dtype, fits_all_passes(shape)).grad_input(weight, grad_y, grad_x, shape);
  }
  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape) override {
    const bool suits_onednn = fits_all_passes(shape) || reads_colours(shape);
    Conv2dBackend& backend = has_few_pixels(shape) ? *columns_ : choose(x.dtype, suits_onednn);
    backend.grad_weight(x, grad_y, grad_weight, shape);
  }

 private:
  // For forward and grad_input this must not depend on the batch, or a sample's result would.
  Conv2dBackend& choose(DType dtype, bool suits_onednn) {
    const bool is_possible = suits_onednn && dtype == DType::kFloat32;
    return is_possible && onednn() != nullptr ? *onednn() : *loops_;
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
