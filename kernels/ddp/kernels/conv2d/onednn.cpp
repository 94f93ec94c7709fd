// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/onednn.h"

#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/threads/all_signals_blocked.h"

namespace ddp::cpu {
namespace {

#define DDP_ONEDNN_CHECK(library, call, ...) check_onednn((library).call(__VA_ARGS__), #call)

OwnedDnnl<dnnl_engine_t> make_engine(const OnednnLibrary& library) {
  dnnl_engine_t engine = nullptr;
  DDP_ONEDNN_CHECK(library, engine_create, &engine, dnnl_cpu, 0);
  return {engine, library.engine_destroy};
}

OwnedDnnl<dnnl_stream_t> make_stream(const OnednnLibrary& library, dnnl_engine_t engine) {
  dnnl_stream_t stream = nullptr;
  DDP_ONEDNN_CHECK(library, stream_create, &stream, engine, dnnl_stream_default_flags);
  return {stream, library.stream_destroy};
}

// For a primitive that writes, or adds to what it finds.
OwnedDnnl<dnnl_primitive_attr_t> make_attributes(const OnednnLibrary& library, WriteMode mode) {
  dnnl_primitive_attr_t raw = nullptr;
  DDP_ONEDNN_CHECK(library, attributes_create, &raw);
  OwnedDnnl<dnnl_primitive_attr_t> attributes(raw, library.attributes_destroy);
  if (mode == WriteMode::kOverwrite) return attributes;
  dnnl_post_ops_t raw_post_ops = nullptr;
  DDP_ONEDNN_CHECK(library, post_ops_create, &raw_post_ops);
  const OwnedDnnl<dnnl_post_ops_t> post_ops(raw_post_ops, library.post_ops_destroy);
  library.version->append_sum(post_ops.get());
  DDP_ONEDNN_CHECK(library, attributes_set_post_ops, attributes.get(), post_ops.get());
  return attributes;
}

}  // namespace

void check_onednn(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw Error(std::string("[kernels] oneDNN: ") + call + ": status " +
              std::to_string(static_cast<int>(status)));
}

Onednn::Onednn(OnednnLibrary library)
    : library_(std::move(library)),
      engine_(make_engine(library_)),
      stream_(make_stream(library_, engine_.get())) {}

DnnlMemory Onednn::make_memory(DnnlLayoutView layout) const {
  dnnl_memory_t memory = nullptr;
  DDP_ONEDNN_CHECK(library_, memory_create, &memory, layout, engine_.get(), DNNL_MEMORY_NONE);
  return {memory, library_.memory_destroy};
}

void Onednn::set_data(const DnnlMemory& memory, void* data) const {
  DDP_ONEDNN_CHECK(library_, memory_set_data, memory.get(), data);
}

DnnlPrimitiveDesc Onednn::describe(Conv2dPass pass, const DnnlConvolution& convolution,
                                   const DnnlPrimitiveDesc& forward) const {
  return library_.version->describe(pass, convolution, engine_.get(), forward.get());
}

std::string Onednn::implementation(const DnnlPrimitiveDesc& desc) const {
  const char* name = nullptr;
  DDP_ONEDNN_CHECK(library_, primitive_desc_query, desc.get(), dnnl_query_impl_info_str, 0,
                   static_cast<void*>(&name));
  return name;
}

DnnlPrimitive Onednn::make_primitive(const DnnlPrimitiveDesc& desc) const {
  dnnl_primitive_t primitive = nullptr;
  DDP_ONEDNN_CHECK(library_, primitive_create, &primitive, desc.get());
  return {primitive, library_.primitive_destroy};
}

DnnlPrimitive Onednn::make_reorder(DnnlLayoutView from, DnnlLayoutView to, WriteMode mode) const {
  const OwnedDnnl<dnnl_primitive_attr_t> attributes = make_attributes(library_, mode);
  dnnl_primitive_desc_t desc = nullptr;
  DDP_ONEDNN_CHECK(library_, reorder_desc_create, &desc, from, engine_.get(), to, engine_.get(),
                   attributes.get());
  return make_primitive({desc, library_.primitive_desc_destroy});
}

void Onednn::execute(const DnnlPrimitive& primitive,
                     std::span<const dnnl_exec_arg_t> arguments) const {
  const AllSignalsBlocked blocked;  // a convolution may consist of products: detail/gemm_onednn.h
  DDP_ONEDNN_CHECK(library_, primitive_execute, primitive.get(), stream_.get(),
                   static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace ddp::cpu
