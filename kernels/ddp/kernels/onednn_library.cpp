// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/onednn_library.h"

#include <dlfcn.h>

#include "ddp/kernels/detail/load_symbol.h"

namespace ddp::cpu {

// Never closed: OpenMP's threads, which it brings along, would lose their code.
bool OnednnLibrary::open() {
  void* library = dlopen(DDP_ONEDNN_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  using detail::load_symbol;
  version = find_onednn_version(library);
  return version != nullptr && load_symbol(library, "dnnl_engine_create", engine_create) &&
         load_symbol(library, "dnnl_engine_destroy", engine_destroy) &&
         load_symbol(library, "dnnl_stream_create", stream_create) &&
         load_symbol(library, "dnnl_stream_destroy", stream_destroy) &&
         load_symbol(library, "dnnl_memory_desc_equal", memory_desc_equal) &&
         load_symbol(library, "dnnl_memory_desc_get_size", memory_desc_size) &&
         load_symbol(library, "dnnl_memory_create", memory_create) &&
         load_symbol(library, "dnnl_memory_set_data_handle", memory_set_data) &&
         load_symbol(library, "dnnl_memory_destroy", memory_destroy) &&
         load_symbol(library, "dnnl_post_ops_create", post_ops_create) &&
         load_symbol(library, "dnnl_post_ops_destroy", post_ops_destroy) &&
         load_symbol(library, "dnnl_primitive_attr_create", attributes_create) &&
         load_symbol(library, "dnnl_primitive_attr_set_post_ops", attributes_set_post_ops) &&
         load_symbol(library, "dnnl_primitive_attr_destroy", attributes_destroy) &&
         load_symbol(library, "dnnl_reorder_primitive_desc_create", reorder_desc_create) &&
         load_symbol(library, "dnnl_primitive_desc_query_md", primitive_desc_query_md) &&
         load_symbol(library, "dnnl_primitive_desc_destroy", primitive_desc_destroy) &&
         load_symbol(library, "dnnl_primitive_create", primitive_create) &&
         load_symbol(library, "dnnl_primitive_execute", primitive_execute) &&
         load_symbol(library, "dnnl_primitive_destroy", primitive_destroy);
}

}  // namespace ddp::cpu
