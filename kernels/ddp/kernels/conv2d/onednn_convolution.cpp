// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/onednn_convolution.h"

#include <array>
#include <string>

#include "ddp/kernels/detail/scratch.h"

namespace ddp::cpu {
namespace {

dnnl_dim_t dim(std::size_t size) { return static_cast<dnnl_dim_t>(size); }

struct Layouts {
  DnnlLayout x, weight, bias, y;
};

// `activations` and `filters` are formats for x and y, and for a weight of one or more groups.
Layouts lay_out(const OnednnVersion& onednn, const Conv2dShape& shape,
                dnnl_format_tag_t activations, dnnl_format_tag_t filters) {
  const Size2d output = shape.output();
  const Conv2dShape group = shape.group();
  const dnnl_dim_t out = dim(group.out_channels), in = dim(group.in_channels);
  const dnnl_dim_t height = dim(shape.kernel.height), width = dim(shape.kernel.width);
  return {
      .x = onednn.make_layout(4,
                              {dim(shape.batch), dim(shape.in_channels), dim(shape.input.height),
                               dim(shape.input.width)},
                              activations),
      .weight = shape.groups == 1
                    ? onednn.make_layout(4, {out, in, height, width}, filters)
                    : onednn.make_layout(5, {dim(shape.groups), out, in, height, width}, filters),
      .bias = onednn.make_layout(1, {dim(shape.out_channels)}, dnnl_a),
      .y = onednn.make_layout(
          4, {dim(shape.batch), dim(shape.out_channels), dim(output.height), dim(output.width)},
          activations)};
}

Layouts our_layouts(const OnednnVersion& onednn, const Conv2dShape& shape) {
  return lay_out(onednn, shape, dnnl_nchw, shape.groups == 1 ? dnnl_oihw : dnnl_goihw);
}

// What oneDNN may choose from. A pointwise convolution is a matrix product in our layout, which is
// several times faster than blocks unless its matrices are tiny.
Layouts allowed_layouts(const OnednnVersion& onednn, const Conv2dShape& shape) {
  constexpr std::size_t kFewPixels = 32;
  const bool is_product = shape.is_pointwise() && shape.input.count() > kFewPixels;
  return lay_out(onednn, shape, is_product ? dnnl_nchw : dnnl_format_tag_any, dnnl_format_tag_any);
}

DnnlPrimitiveDesc describe(const Onednn& onednn, const OnednnConvolutionKey& key) {
  const Layouts layouts = allowed_layouts(*onednn.library().version, key.shape);
  const DnnlConvolution convolution{
      .x = layouts.x.get(),
      .weight = layouts.weight.get(),
      .bias = key.has_bias ? layouts.bias.get() : nullptr,
      .y = layouts.y.get(),
      .stride = {dim(key.shape.stride.height), dim(key.shape.stride.width)},
      .padding = {dim(key.shape.padding.height), dim(key.shape.padding.width)}};
  DnnlPrimitiveDesc forward =
      onednn.describe(Conv2dPass::kForward, convolution, {nullptr, nullptr});
  if (key.pass == Conv2dPass::kForward) return forward;
  return onednn.describe(key.pass, convolution, forward);
}

}  // namespace

OnednnConvolution::OnednnConvolution(const Onednn& onednn, const OnednnConvolutionKey& key)
    : key_(key) {
  const DnnlPrimitiveDesc desc = describe(onednn, key);
  const Layouts ours = our_layouts(*onednn.library().version, key.shape);
  const bool gives_x = key.pass == Conv2dPass::kGradInput;
  const bool gives_weight = key.pass == Conv2dPass::kGradWeight;
  const bool gives_y = key.pass == Conv2dPass::kForward;
  x_ =
      make_operand(onednn, desc, gives_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, ours.x.get(), gives_x);
  weight_ = make_operand(onednn, desc, gives_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                         ours.weight.get(), gives_weight);
  y_ =
      make_operand(onednn, desc, gives_y ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, ours.y.get(), gives_y);
  if (key.has_bias) bias_ = onednn.make_memory(ours.bias.get());
  has_products_ = onednn.implementation(desc).find("gemm") != std::string::npos;
  primitive_ = onednn.make_primitive(desc);
}

OnednnConvolution::Operand OnednnConvolution::make_operand(const Onednn& onednn,
                                                           const DnnlPrimitiveDesc& desc,
                                                           int argument, DnnlLayoutView ours,
                                                           bool is_result) const {
  const OnednnLibrary& library = onednn.library();
  const DnnlLayoutView inner =
      library.primitive_desc_query_md(desc.get(), dnnl_query_exec_arg_md, argument);
  Operand operand;
  operand.argument = argument;
  operand.is_result = is_result;
  operand.ours = onednn.make_memory(ours);
  const bool accumulates = is_result && key_.mode == WriteMode::kAccumulate;
  if (library.memory_desc_equal(ours, inner) != 0 && !accumulates) return operand;
  operand.inner = onednn.make_memory(inner);
  operand.inner_bytes = host_aligned(library.memory_desc_size(inner));
  operand.copy = is_result ? onednn.make_reorder(inner, ours, key_.mode)
                           : onednn.make_reorder(ours, inner, WriteMode::kOverwrite);
  return operand;
}

std::size_t OnednnConvolution::scratch_bytes() const {
  return x_.inner_bytes + weight_.inner_bytes + y_.inner_bytes;
}

void OnednnConvolution::run(const Onednn& onednn, const Operands& operands, void* scratch,
                            std::size_t batches) const {
  auto* free = static_cast<std::byte*>(scratch);
  for (const Operand* operand : {&x_, &weight_, &y_}) {
    if (operand->inner) onednn.set_data(operand->inner, free);
    free += operand->inner_bytes;
  }
  onednn.set_data(weight_.ours, operands.weight);
  if (bias_) onednn.set_data(bias_, operands.bias);
  if (!weight_.is_result) copy(onednn, weight_);
  for (std::size_t i = 0; i < batches; ++i) {
    onednn.set_data(x_.ours, operands.x + i * key_.shape.x_count());
    onednn.set_data(y_.ours, operands.y + i * key_.shape.y_count());
    compute(onednn);
  }
  if (weight_.is_result) copy(onednn, weight_);
}

void OnednnConvolution::compute(const Onednn& onednn) const {
  for (const Operand* operand : {&x_, &y_}) {
    if (!operand->is_result) copy(onednn, *operand);
  }
  const auto argument = [](const Operand& operand) {
    return dnnl_exec_arg_t{operand.argument,
                           operand.inner ? operand.inner.get() : operand.ours.get()};
  };
  const std::array arguments{argument(x_), argument(weight_), argument(y_),
                             dnnl_exec_arg_t{DNNL_ARG_BIAS, bias_.get()}};
  onednn.execute(primitive_, std::span(arguments).first(bias_ ? 4 : 3));
  for (const Operand* operand : {&x_, &y_}) {
    if (operand->is_result) copy(onednn, *operand);
  }
}

void OnednnConvolution::copy(const Onednn& onednn, const Operand& operand) {
  if (!operand.copy) return;
  dnnl_memory_t from = operand.ours.get(), to = operand.inner.get();
  if (operand.is_result) std::swap(from, to);
  const std::array arguments{dnnl_exec_arg_t{DNNL_ARG_FROM, from},
                             dnnl_exec_arg_t{DNNL_ARG_TO, to}};
  onednn.execute(operand.copy, arguments);
}

}  // namespace ddp::cpu
