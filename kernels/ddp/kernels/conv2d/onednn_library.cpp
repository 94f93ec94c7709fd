// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/onednn_library.h"

#include "ddp/base/system/dynamic_library.h"

namespace ddp::cpu {

// OpenMP's threads, which it brings along, would lose their code if it was closed.
bool OnednnLibrary::open() {
  const DynamicLibrary library(DDP_ONEDNN_SONAME, DynamicLibrary::Lifetime::kProcess);
  version = find_onednn_version(library);
  return version != nullptr && library.find("dnnl_engine_create", engine_create) &&
         library.find("dnnl_engine_destroy", engine_destroy) &&
         library.find("dnnl_stream_create", stream_create) &&
         library.find("dnnl_stream_destroy", stream_destroy) &&
         library.find("dnnl_memory_desc_equal", memory_desc_equal) &&
         library.find("dnnl_memory_desc_get_size", memory_desc_size) &&
         library.find("dnnl_memory_create", memory_create) &&
         library.find("dnnl_memory_set_data_handle", memory_set_data) &&
         library.find("dnnl_memory_destroy", memory_destroy) &&
         library.find("dnnl_post_ops_create", post_ops_create) &&
         library.find("dnnl_post_ops_destroy", post_ops_destroy) &&
         library.find("dnnl_primitive_attr_create", attributes_create) &&
         library.find("dnnl_primitive_attr_set_post_ops", attributes_set_post_ops) &&
         library.find("dnnl_primitive_attr_destroy", attributes_destroy) &&
         library.find("dnnl_reorder_primitive_desc_create", reorder_desc_create) &&
         library.find("dnnl_primitive_desc_query", primitive_desc_query) &&
         library.find("dnnl_primitive_desc_query_md", primitive_desc_query_md) &&
         library.find("dnnl_primitive_desc_destroy", primitive_desc_destroy) &&
         library.find("dnnl_primitive_create", primitive_create) &&
         library.find("dnnl_primitive_execute", primitive_execute) &&
         library.find("dnnl_primitive_destroy", primitive_destroy);
}

}  // namespace ddp::cpu
