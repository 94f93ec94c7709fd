// SPDX-License-Identifier: MIT
//
// oneDNN's handles, with owners. For sources compiled with oneDNN only.
#pragma once

#include <span>
#include <string>

#include "ddp/kernels/conv2d/onednn_library.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

using DnnlMemory = OwnedDnnl<dnnl_memory_t>;
using DnnlPrimitive = OwnedDnnl<dnnl_primitive_t>;

// oneDNN's functions, its engine (the CPU), and the stream on which everything runs: synchronously,
// on the calling thread and OpenMP's threads. Every call throws ddp::Error if oneDNN fails.
class Onednn {
 public:
  explicit Onednn(OnednnLibrary library);

  [[nodiscard]] const OnednnLibrary& library() const { return library_; }

  // Has no memory until set_data().
  [[nodiscard]] DnnlMemory make_memory(DnnlLayoutView layout) const;
  void set_data(const DnnlMemory& memory, void* data) const;

  // `forward` is the description of the forward pass, for the other passes.
  [[nodiscard]] DnnlPrimitiveDesc describe(Conv2dPass pass, const DnnlConvolution& convolution,
                                           const DnnlPrimitiveDesc& forward) const;
  // How it is computed, as DNNL_VERBOSE=1 prints it: "jit:avx2", "x64:gemm:jit".
  [[nodiscard]] std::string implementation(const DnnlPrimitiveDesc& desc) const;
  [[nodiscard]] DnnlPrimitive make_primitive(const DnnlPrimitiveDesc& desc) const;
  // Copies from one layout to another; with kAccumulate adds to the target.
  [[nodiscard]] DnnlPrimitive make_reorder(DnnlLayoutView from, DnnlLayoutView to,
                                           WriteMode mode) const;

  void execute(const DnnlPrimitive& primitive, std::span<const dnnl_exec_arg_t> arguments) const;

 private:
  OnednnLibrary library_;
  OwnedDnnl<dnnl_engine_t> engine_;
  OwnedDnnl<dnnl_stream_t> stream_;
};

}  // namespace ddp::cpu
