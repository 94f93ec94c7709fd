// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/onednn_library.h"

#include <dlfcn.h>

#include <string>

namespace ddp::cpu {
namespace {

template <class Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// Never closed: OpenMP's threads, which it brings along, would lose their code.
bool OnednnLibrary::open() {
  const std::string name = "libdnnl.so." + std::to_string(DNNL_VERSION_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  return load(library, "dnnl_engine_create", engine_create) &&
         load(library, "dnnl_engine_destroy", engine_destroy) &&
         load(library, "dnnl_stream_create", stream_create) &&
         load(library, "dnnl_stream_destroy", stream_destroy) &&
         load(library, "dnnl_memory_desc_init_by_tag", memory_desc_init) &&
         load(library, "dnnl_memory_desc_equal", memory_desc_equal) &&
         load(library, "dnnl_memory_desc_get_size", memory_desc_size) &&
         load(library, "dnnl_memory_create", memory_create) &&
         load(library, "dnnl_memory_set_data_handle", memory_set_data) &&
         load(library, "dnnl_memory_destroy", memory_destroy) &&
         load(library, "dnnl_convolution_forward_desc_init", forward_init) &&
         load(library, "dnnl_convolution_backward_data_desc_init", backward_data_init) &&
         load(library, "dnnl_convolution_backward_weights_desc_init", backward_weights_init) &&
         load(library, "dnnl_post_ops_create", post_ops_create) &&
         load(library, "dnnl_post_ops_append_sum", post_ops_append_sum) &&
         load(library, "dnnl_post_ops_destroy", post_ops_destroy) &&
         load(library, "dnnl_primitive_attr_create", attributes_create) &&
         load(library, "dnnl_primitive_attr_set_post_ops", attributes_set_post_ops) &&
         load(library, "dnnl_primitive_attr_destroy", attributes_destroy) &&
         load(library, "dnnl_reorder_primitive_desc_create", reorder_desc_create) &&
         load(library, "dnnl_primitive_desc_create", primitive_desc_create) &&
         load(library, "dnnl_primitive_desc_query_md", primitive_desc_query_md) &&
         load(library, "dnnl_primitive_desc_destroy", primitive_desc_destroy) &&
         load(library, "dnnl_primitive_create", primitive_create) &&
         load(library, "dnnl_primitive_execute", primitive_execute) &&
         load(library, "dnnl_primitive_destroy", primitive_destroy);
}

}  // namespace ddp::cpu
