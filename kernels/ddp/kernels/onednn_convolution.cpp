// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/onednn_convolution.h"

#include <array>

#include "ddp/kernels/detail/scratch.h"

namespace ddp::cpu {
namespace {

using Dims = std::array<dnnl_dim_t, 5>;

dnnl_dim_t dim(std::size_t size) { return static_cast<dnnl_dim_t>(size); }

struct Layouts {
  dnnl_memory_desc_t x, weight, bias, y;
};

// `activations` and `filters` are formats for x and y, and for a weight of one or more groups.
Layouts lay_out(const OnednnLibrary& library, const Conv2dShape& shape,
                dnnl_format_tag_t activations, dnnl_format_tag_t filters) {
  const Size2d output = shape.output();
  const auto init = [&library](int rank, const Dims& dims, dnnl_format_tag_t format) {
    dnnl_memory_desc_t layout;
    check_onednn(library.memory_desc_init(&layout, rank, dims.data(), dnnl_f32, format),
                 "memory_desc_init");
    return layout;
  };
  const Conv2dShape group = shape.group();
  const dnnl_dim_t out = dim(group.out_channels), in = dim(group.in_channels);
  const dnnl_dim_t height = dim(shape.kernel.height), width = dim(shape.kernel.width);
  return {
      .x = init(4,
                {dim(shape.batch), dim(shape.in_channels), dim(shape.input.height),
                 dim(shape.input.width)},
                activations),
      .weight = shape.groups == 1 ? init(4, {out, in, height, width}, filters)
                                  : init(5, {dim(shape.groups), out, in, height, width}, filters),
      .bias = init(1, {dim(shape.out_channels)}, dnnl_a),
      .y = init(4,
                {dim(shape.batch), dim(shape.out_channels), dim(output.height), dim(output.width)},
                activations)};
}

Layouts our_layouts(const OnednnLibrary& library, const Conv2dShape& shape) {
  return lay_out(library, shape, dnnl_nchw, shape.groups == 1 ? dnnl_oihw : dnnl_goihw);
}

// What oneDNN may choose from. A pointwise convolution is a matrix product in our layout, which is
// several times faster than blocks unless its matrices are tiny.
Layouts allowed_layouts(const OnednnLibrary& library, const Conv2dShape& shape) {
  constexpr std::size_t kFewPixels = 32;
  const bool is_product = shape.is_pointwise() && shape.input.count() > kFewPixels;
  return lay_out(library, shape, is_product ? dnnl_nchw : dnnl_format_tag_any, dnnl_format_tag_any);
}

DnnlPrimitiveDesc describe(const Onednn& onednn, const OnednnConvolutionKey& key) {
  const OnednnLibrary& library = onednn.library();
  const Layouts l = allowed_layouts(library, key.shape);
  const Dims stride{dim(key.shape.stride.height), dim(key.shape.stride.width)};
  const Dims padding{dim(key.shape.padding.height), dim(key.shape.padding.width)};
  constexpr dnnl_alg_kind_t kDirect = dnnl_convolution_direct;
  dnnl_convolution_desc_t pass;
  check_onednn(library.forward_init(&pass, dnnl_forward_training, kDirect, &l.x, &l.weight,
                                    key.has_bias ? &l.bias : nullptr, &l.y, stride.data(),
                                    padding.data(), padding.data()),
               "forward_init");
  DnnlPrimitiveDesc forward = onednn.describe(pass, {nullptr, nullptr});
  if (key.pass == Conv2dPass::kForward) return forward;
  if (key.pass == Conv2dPass::kGradInput) {
    check_onednn(library.backward_data_init(&pass, kDirect, &l.x, &l.weight, &l.y, stride.data(),
                                            padding.data(), padding.data()),
                 "backward_data_init");
  } else {
    check_onednn(library.backward_weights_init(&pass, kDirect, &l.x, &l.weight, nullptr, &l.y,
                                               stride.data(), padding.data(), padding.data()),
                 "backward_weights_init");
  }
  return onednn.describe(pass, forward);
}

}  // namespace

OnednnConvolution::OnednnConvolution(const Onednn& onednn, const OnednnConvolutionKey& key)
    : key_(key) {
  const DnnlPrimitiveDesc desc = describe(onednn, key);
  const Layouts ours = our_layouts(onednn.library(), key.shape);
  const bool gives_x = key.pass == Conv2dPass::kGradInput;
  const bool gives_weight = key.pass == Conv2dPass::kGradWeight;
  const bool gives_y = key.pass == Conv2dPass::kForward;
  x_ = make_operand(onednn, desc, gives_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, ours.x, gives_x);
  weight_ = make_operand(onednn, desc, gives_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                         ours.weight, gives_weight);
  y_ = make_operand(onednn, desc, gives_y ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, ours.y, gives_y);
  if (key.has_bias) bias_ = onednn.make_memory(ours.bias);
  primitive_ = onednn.make_primitive(desc);
}

OnednnConvolution::Operand OnednnConvolution::make_operand(const Onednn& onednn,
                                                           const DnnlPrimitiveDesc& desc,
                                                           int argument,
                                                           const dnnl_memory_desc_t& ours,
                                                           bool is_result) const {
  const OnednnLibrary& library = onednn.library();
  const dnnl_memory_desc_t& inner =
      *library.primitive_desc_query_md(desc.get(), dnnl_query_exec_arg_md, argument);
  Operand operand;
  operand.argument = argument;
  operand.is_result = is_result;
  operand.ours = onednn.make_memory(ours);
  const bool accumulates = is_result && key_.mode == WriteMode::kAccumulate;
  if (library.memory_desc_equal(&ours, &inner) != 0 && !accumulates) return operand;
  operand.inner = onednn.make_memory(inner);
  operand.inner_bytes = detail::Scratch::padded(library.memory_desc_size(&inner));
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
