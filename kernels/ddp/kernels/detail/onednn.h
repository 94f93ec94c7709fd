// SPDX-License-Identifier: MIT
//
// oneDNN's handles, with owners. For sources compiled with oneDNN only.
#pragma once

#include <span>

#include "ddp/kernels/detail/onednn_library.h"
#include "ddp/kernels/detail/owned_handle.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

template <class Handle>
using OwnedDnnl = detail::OwnedHandle<Handle, dnnl_status_t>;

using DnnlMemory = OwnedDnnl<dnnl_memory_t>;
using DnnlPrimitive = OwnedDnnl<dnnl_primitive_t>;
using DnnlPrimitiveDesc = OwnedDnnl<dnnl_primitive_desc_t>;

// oneDNN's functions, its engine (the CPU), and the stream on which everything runs: at once, in
// the calling thread and OpenMP's. Every call throws ddp::Error if oneDNN fails.
class Onednn {
 public:
  explicit Onednn(const OnednnLibrary& library);

  [[nodiscard]] const OnednnLibrary& library() const { return library_; }

  // Without memory: set_data() gives it some.
  [[nodiscard]] DnnlMemory make_memory(const dnnl_memory_desc_t& layout) const;
  void set_data(const DnnlMemory& memory, void* data) const;

  // `hint` is the forward pass' description, for a backward pass.
  [[nodiscard]] DnnlPrimitiveDesc describe(const dnnl_convolution_desc_t& convolution,
                                           const DnnlPrimitiveDesc& hint) const;
  [[nodiscard]] DnnlPrimitive make_primitive(const DnnlPrimitiveDesc& desc) const;
  // Copies from one layout to another; with kAccumulate adds to what is there.
  [[nodiscard]] DnnlPrimitive make_reorder(const dnnl_memory_desc_t& from,
                                           const dnnl_memory_desc_t& to, WriteMode mode) const;

  void execute(const DnnlPrimitive& primitive, std::span<const dnnl_exec_arg_t> arguments) const;

 private:
  OnednnLibrary library_;
  OwnedDnnl<dnnl_engine_t> engine_;
  OwnedDnnl<dnnl_stream_t> stream_;
};

// Throws ddp::Error that names `call` unless `status` is success.
void check_onednn(dnnl_status_t status, const char* call);

}  // namespace ddp::cpu
