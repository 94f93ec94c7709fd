// SPDX-License-Identifier: MIT
#include "ddp/base/system/dynamic_library.h"
#include "ddp/kernels/conv2d/onednn_version.h"

namespace ddp::cpu {
namespace {

constexpr dnnl_alg_kind_t kDirect = dnnl_convolution_direct;
constexpr DnnlDims kDense{};  // no dilation

class Onednn3 final : public OnednnVersion {
 public:
  bool load(const DynamicLibrary& library) {
    return library.find("dnnl_memory_desc_create_with_tag", layout_create_) &&
           library.find("dnnl_memory_desc_destroy", layout_destroy_) &&
           library.find("dnnl_post_ops_append_sum", append_sum_) &&
           library.find("dnnl_convolution_forward_primitive_desc_create", forward_) &&
           library.find("dnnl_convolution_backward_data_primitive_desc_create", backward_data_) &&
           library.find("dnnl_convolution_backward_weights_primitive_desc_create",
                        backward_weights_) &&
           library.find("dnnl_primitive_desc_destroy", desc_destroy_);
  }

  DnnlLayout make_layout(int rank, const DnnlDims& dims, dnnl_format_tag_t format) const override {
    dnnl_memory_desc_t layout = nullptr;
    check_onednn(layout_create_(&layout, rank, dims.data(), dnnl_f32, format),
                 "memory_desc_create_with_tag");
    return {layout, layout_destroy_};
  }

  void append_sum(dnnl_post_ops_t post_ops) const override {
    check_onednn(append_sum_(post_ops, 1.0F, 0, dnnl_data_type_undef), "post_ops_append_sum");
  }

  DnnlPrimitiveDesc describe(Conv2dPass pass, const DnnlConvolution& c, dnnl_engine_t engine,
                             const_dnnl_primitive_desc_t forward) const override {
    dnnl_primitive_desc_t desc = nullptr;
    const dnnl_dim_t *stride = c.stride.data(), *padding = c.padding.data();
    if (pass == Conv2dPass::kForward) {
      check_onednn(forward_(&desc, engine, dnnl_forward_training, kDirect, c.x, c.weight, c.bias,
                            c.y, stride, kDense.data(), padding, padding, nullptr),
                   "convolution_forward_primitive_desc_create");
    } else if (pass == Conv2dPass::kGradInput) {
      check_onednn(backward_data_(&desc, engine, kDirect, c.x, c.weight, c.y, stride, kDense.data(),
                                  padding, padding, forward, nullptr),
                   "convolution_backward_data_primitive_desc_create");
    } else {
      check_onednn(backward_weights_(&desc, engine, kDirect, c.x, c.weight, nullptr, c.y, stride,
                                     kDense.data(), padding, padding, forward, nullptr),
                   "convolution_backward_weights_primitive_desc_create");
    }
    return {desc, desc_destroy_};
  }

 private:
  decltype(&dnnl_memory_desc_create_with_tag) layout_create_ = nullptr;
  decltype(&dnnl_memory_desc_destroy) layout_destroy_ = nullptr;
  decltype(&dnnl_post_ops_append_sum) append_sum_ = nullptr;
  decltype(&dnnl_convolution_forward_primitive_desc_create) forward_ = nullptr;
  decltype(&dnnl_convolution_backward_data_primitive_desc_create) backward_data_ = nullptr;
  decltype(&dnnl_convolution_backward_weights_primitive_desc_create) backward_weights_ = nullptr;
  decltype(&dnnl_primitive_desc_destroy) desc_destroy_ = nullptr;
};

}  // namespace

std::unique_ptr<const OnednnVersion> find_onednn_version(const DynamicLibrary& library) {
  auto version = std::make_unique<Onednn3>();
  if (!version->load(library)) return nullptr;
  return version;
}

}  // namespace ddp::cpu
