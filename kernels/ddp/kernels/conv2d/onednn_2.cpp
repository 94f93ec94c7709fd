// SPDX-License-Identifier: MIT
#include "ddp/base/system/dynamic_library.h"
#include "ddp/kernels/conv2d/onednn_version.h"

namespace ddp::cpu {
namespace {

constexpr dnnl_alg_kind_t kDirect = dnnl_convolution_direct;

class Onednn2 final : public OnednnVersion {
 public:
  bool load(const DynamicLibrary& library) {
    return library.find("dnnl_memory_desc_init_by_tag", layout_init_) &&
           library.find("dnnl_post_ops_append_sum", append_sum_) &&
           library.find("dnnl_convolution_forward_desc_init", forward_init_) &&
           library.find("dnnl_convolution_backward_data_desc_init", backward_data_init_) &&
           library.find("dnnl_convolution_backward_weights_desc_init", backward_weights_init_) &&
           library.find("dnnl_primitive_desc_create", desc_create_) &&
           library.find("dnnl_primitive_desc_destroy", desc_destroy_);
  }

  DnnlLayout make_layout(int rank, const DnnlDims& dims, dnnl_format_tag_t format) const override {
    auto layout = std::make_unique<dnnl_memory_desc_t>();
    check_onednn(layout_init_(layout.get(), rank, dims.data(), dnnl_f32, format),
                 "memory_desc_init_by_tag");
    const auto destroy = [](dnnl_memory_desc_t* owned) {
      delete owned;
      return dnnl_success;
    };
    return {layout.release(), destroy};
  }

  void append_sum(dnnl_post_ops_t post_ops) const override {
    check_onednn(append_sum_(post_ops, 1.0F), "post_ops_append_sum");
  }

  DnnlPrimitiveDesc describe(Conv2dPass pass, const DnnlConvolution& convolution,
                             dnnl_engine_t engine,
                             const_dnnl_primitive_desc_t forward) const override {
    const dnnl_convolution_desc_t operation = describe_operation(pass, convolution);
    dnnl_primitive_desc_t desc = nullptr;
    check_onednn(desc_create_(&desc, &operation, nullptr, engine, forward),
                 "primitive_desc_create");
    return {desc, desc_destroy_};
  }

 private:
  [[nodiscard]] dnnl_convolution_desc_t describe_operation(Conv2dPass pass,
                                                           const DnnlConvolution& c) const {
    dnnl_convolution_desc_t operation;
    const dnnl_dim_t *stride = c.stride.data(), *padding = c.padding.data();
    if (pass == Conv2dPass::kForward) {
      check_onednn(forward_init_(&operation, dnnl_forward_training, kDirect, c.x, c.weight, c.bias,
                                 c.y, stride, padding, padding),
                   "convolution_forward_desc_init");
    } else if (pass == Conv2dPass::kGradInput) {
      check_onednn(
          backward_data_init_(&operation, kDirect, c.x, c.weight, c.y, stride, padding, padding),
          "convolution_backward_data_desc_init");
    } else {
      check_onednn(backward_weights_init_(&operation, kDirect, c.x, c.weight, nullptr, c.y, stride,
                                          padding, padding),
                   "convolution_backward_weights_desc_init");
    }
    return operation;
  }

  decltype(&dnnl_memory_desc_init_by_tag) layout_init_ = nullptr;
  decltype(&dnnl_post_ops_append_sum) append_sum_ = nullptr;
  decltype(&dnnl_convolution_forward_desc_init) forward_init_ = nullptr;
  decltype(&dnnl_convolution_backward_data_desc_init) backward_data_init_ = nullptr;
  decltype(&dnnl_convolution_backward_weights_desc_init) backward_weights_init_ = nullptr;
  decltype(&dnnl_primitive_desc_create) desc_create_ = nullptr;
  decltype(&dnnl_primitive_desc_destroy) desc_destroy_ = nullptr;
};

}  // namespace

std::unique_ptr<const OnednnVersion> find_onednn_version(const DynamicLibrary& library) {
  auto version = std::make_unique<Onednn2>();
  if (!version->load(library)) return nullptr;
  return version;
}

}  // namespace ddp::cpu
