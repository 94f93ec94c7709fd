// SPDX-License-Identifier: MIT
//
// The functions of cuDNN that conv2d_cudnn.cpp calls, found by dlopen. For sources compiled with
// cuDNN only.
#pragma once

#include <cudnn.h>

namespace ddp::cu {

struct CudnnLibrary {
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnCreateTensorDescriptor) create_tensor = nullptr;
  decltype(&cudnnSetTensor4dDescriptor) set_tensor = nullptr;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor = nullptr;
  decltype(&cudnnCreateFilterDescriptor) create_filter = nullptr;
  decltype(&cudnnSetFilter4dDescriptor) set_filter = nullptr;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter = nullptr;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution = nullptr;
  decltype(&cudnnSetConvolution2dDescriptor) set_convolution = nullptr;
  decltype(&cudnnSetConvolutionGroupCount) set_group_count = nullptr;
  decltype(&cudnnSetConvolutionMathType) set_math_type = nullptr;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution = nullptr;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) find_forward = nullptr;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) find_backward_data = nullptr;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) find_backward_filter = nullptr;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_scratch = nullptr;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) backward_data_scratch = nullptr;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) backward_filter_scratch = nullptr;
  decltype(&cudnnConvolutionForward) forward = nullptr;
  decltype(&cudnnConvolutionBackwardData) backward_data = nullptr;
  decltype(&cudnnConvolutionBackwardFilter) backward_filter = nullptr;

  // False if this machine has no cuDNN of the major version that the build was made with. Throws
  // Error if the library lacks a function.
  [[nodiscard]] bool open();

  // Unless `status` is success, throws CudaError.
  void check(cudnnStatus_t status, const char* call) const;
};

}  // namespace ddp::cu
