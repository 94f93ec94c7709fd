// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/cudnn_library.h"

#include <string>

#include "ddp/base/error.h"
#include "ddp/base/system/dynamic_library.h"

namespace ddp::cu {

// It registers code with the CUDA runtime that cannot be taken back.
bool CudnnLibrary::open() {
  const DynamicLibrary library("libcudnn.so." + std::to_string(CUDNN_MAJOR),
                               DynamicLibrary::Lifetime::kProcess);
  if (!library.is_open()) return false;
  library.load("cudnnGetErrorString", error_string);
  library.load("cudnnCreate", create);
  library.load("cudnnDestroy", destroy);
  library.load("cudnnSetStream", set_stream);
  library.load("cudnnCreateTensorDescriptor", create_tensor);
  library.load("cudnnSetTensor4dDescriptor", set_tensor);
  library.load("cudnnDestroyTensorDescriptor", destroy_tensor);
  library.load("cudnnCreateFilterDescriptor", create_filter);
  library.load("cudnnSetFilter4dDescriptor", set_filter);
  library.load("cudnnDestroyFilterDescriptor", destroy_filter);
  library.load("cudnnCreateConvolutionDescriptor", create_convolution);
  library.load("cudnnSetConvolution2dDescriptor", set_convolution);
  library.load("cudnnSetConvolutionGroupCount", set_group_count);
  library.load("cudnnSetConvolutionMathType", set_math_type);
  library.load("cudnnDestroyConvolutionDescriptor", destroy_convolution);
  library.load("cudnnGetConvolutionForwardAlgorithm_v7", find_forward);
  library.load("cudnnGetConvolutionBackwardDataAlgorithm_v7", find_backward_data);
  library.load("cudnnGetConvolutionBackwardFilterAlgorithm_v7", find_backward_filter);
  library.load("cudnnGetConvolutionForwardWorkspaceSize", forward_scratch);
  library.load("cudnnGetConvolutionBackwardDataWorkspaceSize", backward_data_scratch);
  library.load("cudnnGetConvolutionBackwardFilterWorkspaceSize", backward_filter_scratch);
  library.load("cudnnConvolutionForward", forward);
  library.load("cudnnConvolutionBackwardData", backward_data);
  library.load("cudnnConvolutionBackwardFilter", backward_filter);
  return true;
}

void CudnnLibrary::check(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudaError(std::string("[kernels] cuDNN: ") + call + ": " + error_string(status));
}

}  // namespace ddp::cu
