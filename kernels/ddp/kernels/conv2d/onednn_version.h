// SPDX-License-Identifier: MIT
//
// The differences between the C interfaces of oneDNN 2 and 3. onednn_2.cpp or onednn_3.cpp is
// compiled, according to the version that the build found. For sources compiled with oneDNN only.
#pragma once

#include <dnnl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "ddp/base/system/dynamic_library.h"
#include "ddp/kernels/detail/owned_handle.h"

namespace ddp::cpu {

template <class Handle>
using OwnedDnnl = detail::OwnedHandle<Handle, dnnl_status_t>;

// A pointer to a layout: in version 2 to a struct, in version 3 to an opaque object.
using DnnlLayoutView = decltype(dnnl_primitive_desc_query_md(nullptr, dnnl_query_undef, 0));
using DnnlLayout = OwnedDnnl<std::remove_const_t<std::remove_pointer_t<DnnlLayoutView>>*>;
using DnnlPrimitiveDesc = OwnedDnnl<dnnl_primitive_desc_t>;

using DnnlDims = std::array<dnnl_dim_t, 5>;

enum class Conv2dPass : std::uint8_t { kForward, kGradInput, kGradWeight };

// Layouts of the operands or of their gradients; `bias` is null if there is none.
struct DnnlConvolution {
  DnnlLayoutView x, weight, bias, y;
  DnnlDims stride, padding;
};

// Every call throws ddp::Error if oneDNN fails.
class OnednnVersion {
 public:
  virtual ~OnednnVersion() = default;

  // The layout of a float32 tensor.
  [[nodiscard]] virtual DnnlLayout make_layout(int rank, const DnnlDims& dims,
                                               dnnl_format_tag_t format) const = 0;
  // Makes the primitive add its result to the target.
  virtual void append_sum(dnnl_post_ops_t post_ops) const = 0;
  // `forward` is the description of the forward pass, for the other passes.
  [[nodiscard]] virtual DnnlPrimitiveDesc describe(Conv2dPass pass,
                                                   const DnnlConvolution& convolution,
                                                   dnnl_engine_t engine,
                                                   const_dnnl_primitive_desc_t forward) const = 0;
};

// Null if `library` lacks a function.
[[nodiscard]] std::unique_ptr<const OnednnVersion> find_onednn_version(
    const DynamicLibrary& library);

// Throws ddp::Error that names `call` unless `status` is success.
void check_onednn(dnnl_status_t status, const char* call);

}  // namespace ddp::cpu
