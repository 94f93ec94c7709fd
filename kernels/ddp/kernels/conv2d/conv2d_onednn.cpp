// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ddp/base/round_up.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/onednn_convolution.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/scratch.h"

namespace ddp::cpu {
namespace {

// Half of a common second-level cache.
constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
// A model has a few dozen convolutions, and two batch sizes; more come from images of many sizes.
constexpr std::size_t kMaxConvolutions = 1024;

// Samples that are computed together: as many as stay in the cache while they are copied, computed
// and copied back.
std::size_t chunk_of(const Conv2dShape& shape) {
  const std::size_t sample_bytes =
      (shape.x_count() + shape.y_count()) / shape.batch * sizeof(float);
  const std::size_t largest = std::max<std::size_t>(1, kChunkBytes / sample_bytes);
  const std::size_t chunks = divide_up(shape.batch, largest);
  return divide_up(shape.batch, chunks);
}

float* floats(const Buffer& buffer) { return static_cast<float*>(buffer.data); }

class OnednnConv2d final : public Conv2dBackend {
 public:
  explicit OnednnConv2d(OnednnLibrary library) : onednn_(std::move(library)) {}

  void forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
               const Conv2dShape& shape) override {
    require_float32("conv2d_forward", x.dtype);
    const OnednnConvolutionKey key =
        in_chunks({Conv2dPass::kForward, shape, WriteMode::kOverwrite, bias.count > 0});
    if (find_or_make(key).has_products()) return columns_->forward(x, weight, bias, y, shape);
    run_chunks(key, {floats(x), floats(weight), floats(bias), floats(y)}, shape.batch);
  }

  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape) override {
    require_float32("conv2d_grad_input", weight.dtype);
    const OnednnConvolutionKey key = in_chunks({Conv2dPass::kGradInput, shape, grad_x.mode});
    if (find_or_make(key).has_products())
      return columns_->grad_input(weight, grad_y, grad_x, shape);
    run_chunks(key, {floats(grad_x.buffer), floats(weight), nullptr, floats(grad_y)}, shape.batch);
  }

  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape) override {
    require_float32("conv2d_grad_weight", x.dtype);
    run({Conv2dPass::kGradWeight, shape, grad_weight.mode},
        {floats(x), floats(grad_weight.buffer), nullptr, floats(grad_y)}, 1);
  }

 private:
  static void require_float32(const char* kernel, DType dtype) {
    if (dtype != DType::kFloat32) detail::refuse_dtype(kernel, dtype);
  }

  static OnednnConvolutionKey in_chunks(OnednnConvolutionKey key) {
    key.shape.batch = chunk_of(key.shape);
    return key;
  }

  // `key` is that of a chunk.
  void run_chunks(OnednnConvolutionKey key, OnednnConvolution::Operands operands,
                  std::size_t batch) {
    const std::size_t chunks = batch / key.shape.batch;
    run(key, operands, chunks);
    operands.x += chunks * key.shape.x_count();
    operands.y += chunks * key.shape.y_count();
    key.shape.batch = batch % key.shape.batch;
    if (key.shape.batch > 0) run(key, operands, 1);
  }

  void run(const OnednnConvolutionKey& key, const OnednnConvolution::Operands& operands,
           std::size_t batches) {
    const OnednnConvolution& convolution = find_or_make(key);
    convolution.run(onednn_, operands, scratch_.at_least(convolution.scratch_bytes()), batches);
  }

  const OnednnConvolution& find_or_make(const OnednnConvolutionKey& key) {
    const auto known = std::find_if(convolutions_.begin(), convolutions_.end(),
                                    [&](const auto& each) { return each.key() == key; });
    if (known != convolutions_.end()) return *known;
    if (convolutions_.size() == kMaxConvolutions) convolutions_.clear();
    return convolutions_.emplace_back(onednn_, key);
  }

  Onednn onednn_;
  std::unique_ptr<Conv2dBackend> columns_ = make_column_conv2d();
  std::vector<OnednnConvolution> convolutions_;
  detail::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Conv2dBackend> make_onednn_conv2d() {
  OnednnLibrary library;
  if (!library.open()) return nullptr;
  return std::make_unique<OnednnConv2d>(std::move(library));
}

}  // namespace ddp::cpu
