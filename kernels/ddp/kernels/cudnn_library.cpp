// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/cudnn_library.h"

#include <dlfcn.h>

#include <string>

#include "ddp/base/error.h"

namespace ddp::cu {
namespace {

template <class Function>
void load(void* library, const char* name, Function& function) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw CudaError(std::string("[kernels] cuDNN lacks ") + name);
  function = reinterpret_cast<Function>(symbol);
}

}  // namespace

// Never closed: it registers code with the CUDA runtime that cannot be taken back.
bool CudnnLibrary::open() {
  const std::string name = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  load(library, "cudnnGetErrorString", error_string);
  load(library, "cudnnCreate", create);
  load(library, "cudnnDestroy", destroy);
  load(library, "cudnnSetStream", set_stream);
  load(library, "cudnnCreateTensorDescriptor", create_tensor);
  load(library, "cudnnSetTensor4dDescriptor", set_tensor);
  load(library, "cudnnDestroyTensorDescriptor", destroy_tensor);
  load(library, "cudnnCreateFilterDescriptor", create_filter);
  load(library, "cudnnSetFilter4dDescriptor", set_filter);
  load(library, "cudnnDestroyFilterDescriptor", destroy_filter);
  load(library, "cudnnCreateConvolutionDescriptor", create_convolution);
  load(library, "cudnnSetConvolution2dDescriptor", set_convolution);
  load(library, "cudnnSetConvolutionGroupCount", set_group_count);
  load(library, "cudnnSetConvolutionMathType", set_math_type);
  load(library, "cudnnDestroyConvolutionDescriptor", destroy_convolution);
  load(library, "cudnnGetConvolutionForwardAlgorithm_v7", find_forward);
  load(library, "cudnnGetConvolutionBackwardDataAlgorithm_v7", find_backward_data);
  load(library, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", find_backward_filter);
  load(library, "cudnnGetConvolutionForwardWorkspaceSize", forward_scratch);
  load(library, "cudnnGetConvolutionBackwardDataWorkspaceSize", backward_data_scratch);
  load(library, "cudnnGetConvolutionBackwardFilterWorkspaceSize", backward_filter_scratch);
  load(library, "cudnnConvolutionForward", forward);
  load(library, "cudnnConvolutionBackwardData", backward_data);
  load(library, "cudnnConvolutionBackwardFilter", backward_filter);
  return true;
}

void CudnnLibrary::check(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudaError(std::string("[kernels] cuDNN: ") + call + ": " + error_string(status));
}

}  // namespace ddp::cu
