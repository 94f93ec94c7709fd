// SPDX-License-Identifier: MIT
//
// The functions of oneDNN's C interface that the convolutions by oneDNN call, found by dlopen. For
// sources compiled with oneDNN only.
#pragma once

#include <dnnl.h>

#include <memory>

#include "ddp/kernels/conv2d/onednn_version.h"

namespace ddp::cpu {

struct OnednnLibrary {
  decltype(&dnnl_engine_create) engine_create = nullptr;
  decltype(&dnnl_engine_destroy) engine_destroy = nullptr;
  decltype(&dnnl_stream_create) stream_create = nullptr;
  decltype(&dnnl_stream_destroy) stream_destroy = nullptr;
  decltype(&dnnl_memory_desc_equal) memory_desc_equal = nullptr;
  decltype(&dnnl_memory_desc_get_size) memory_desc_size = nullptr;
  decltype(&dnnl_memory_create) memory_create = nullptr;
  decltype(&dnnl_memory_set_data_handle) memory_set_data = nullptr;
  decltype(&dnnl_memory_destroy) memory_destroy = nullptr;
  decltype(&dnnl_post_ops_create) post_ops_create = nullptr;
  decltype(&dnnl_post_ops_destroy) post_ops_destroy = nullptr;
  decltype(&dnnl_primitive_attr_create) attributes_create = nullptr;
  decltype(&dnnl_primitive_attr_set_post_ops) attributes_set_post_ops = nullptr;
  decltype(&dnnl_primitive_attr_destroy) attributes_destroy = nullptr;
  decltype(&dnnl_reorder_primitive_desc_create) reorder_desc_create = nullptr;
  decltype(&dnnl_primitive_desc_query) primitive_desc_query = nullptr;
  decltype(&dnnl_primitive_desc_query_md) primitive_desc_query_md = nullptr;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy = nullptr;
  decltype(&dnnl_primitive_create) primitive_create = nullptr;
  decltype(&dnnl_primitive_execute) primitive_execute = nullptr;
  decltype(&dnnl_primitive_destroy) primitive_destroy = nullptr;
  std::unique_ptr<const OnednnVersion> version;

  // False if this machine has no oneDNN with the name that the build saw.
  [[nodiscard]] bool open();
};

}  // namespace ddp::cpu
