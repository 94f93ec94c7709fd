// SPDX-License-Identifier: MIT
//
// A convolution of one shape as oneDNN computes it. For sources compiled with oneDNN only.
#pragma once

#include <cstddef>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/onednn.h"

namespace ddp::cpu {

struct OnednnConvolutionKey {
  Conv2dPass pass;
  Conv2dShape shape;
  WriteMode mode = WriteMode::kOverwrite;  // of the result
  bool has_bias = false;

  friend bool operator==(const OnednnConvolutionKey&, const OnednnConvolutionKey&) = default;
};

// oneDNN is fastest with its own layouts. An operand in another layout is copied into scratch
// memory before, or out of it afterwards.
class OnednnConvolution {
 public:
  OnednnConvolution(const Onednn& onednn, const OnednnConvolutionKey& key);

  [[nodiscard]] const OnednnConvolutionKey& key() const { return key_; }
  [[nodiscard]] std::size_t scratch_bytes() const;
  // Whether oneDNN computes it by matrix products. It gives all threads to a single sample and one
  // to each of several, and a product rounds differently with another number of threads.
  [[nodiscard]] bool has_products() const { return has_products_; }

  struct Operands {
    float* x;
    float* weight;
    float* bias;  // null if there is none
    float* y;
  };
  // Computes `batches` consecutive batches with the same weight. The gradient of the weight can
  // only be that of a single batch.
  void run(const Onednn& onednn, const Operands& operands, void* scratch,
           std::size_t batches) const;

 private:
  struct Operand {
    int argument = 0;  // oneDNN's number for it
    DnnlMemory ours{nullptr, nullptr};
    DnnlMemory inner{nullptr, nullptr};  // null if ours will do
    DnnlPrimitive copy{nullptr, nullptr};
    std::size_t inner_bytes = 0;
    bool is_result = false;
  };

  [[nodiscard]] Operand make_operand(const Onednn& onednn, const DnnlPrimitiveDesc& desc,
                                     int argument, DnnlLayoutView ours, bool is_result) const;
  static void copy(const Onednn& onednn, const Operand& operand);
  void compute(const Onednn& onednn) const;

  OnednnConvolutionKey key_;
  bool has_products_ = false;
  DnnlPrimitive primitive_{nullptr, nullptr};
  DnnlMemory bias_{nullptr, nullptr};
  Operand x_, weight_, y_;
};

}  // namespace ddp::cpu
