// SPDX-License-Identifier: MIT
//
// Chooses cuDNN's algorithm for a convolution. For sources compiled with cuDNN only.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/dtype.h"
#include "ddp/base/log.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/cudnn_library.h"

namespace ddp::cu {

// How Winograd's algorithms rank.
enum class Winograd { kNever, kAsFound, kFirst };

// What to choose an algorithm for.
struct CudnnRequest {
  DType dtype = DType::kFloat32;
  Float32Precision precision = Float32Precision::kIeee;
  Winograd winograd = Winograd::kAsFound;
  std::size_t scratch_limit_bytes = 0;
};

// For kernels of 5 x 5, Winograd's transforms lose most of a float32's digits. On an H100 with
// cuDNN 9.19, the worst error of a gradient was 1e-2 of the root mean square, and 1e-6 with other
// algorithms. For kernels of 3 x 3 it was 6e-5, and they take half the time of the algorithms that
// cuDNN ranks before them. Tensor cores need no such help.
inline Winograd winograd_for(const Conv2dShape& shape, DType dtype, Float32Precision precision) {
  constexpr std::size_t kManyChannels = 32;
  if (shape.kernel != Size2d{3, 3}) return Winograd::kNever;
  const Conv2dShape group = shape.group();
  const bool is_faster = dtype == DType::kFloat32 && precision == Float32Precision::kIeee &&
                         shape.stride == Size2d{1, 1} && group.in_channels >= kManyChannels &&
                         group.out_channels >= kManyChannels;
  return is_faster ? Winograd::kFirst : Winograd::kAsFound;
}

inline bool is_winograd(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
}
inline bool is_winograd(cudnnConvolutionBwdDataAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
         algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
}
inline bool is_winograd(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

template <class Algorithm>
struct CudnnChoice {
  Algorithm algorithm;
  cudnnMathType_t math_type;
  std::size_t scratch_bytes;
};

// The math types to ask cuDNN for, in order, until it knows an algorithm. For 16-bit operands it
// uses tensor cores only if they are named: with its default math type, gradients took up to 100
// times as long on an H100. float32 operands they would round to TF32. They round no float64, for
// which PyTorch asks for the default, too.
inline std::vector<cudnnMathType_t> cudnn_math_types(DType dtype, Float32Precision precision) {
  if (dtype == DType::kFloat64) return {CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH};
  const bool is_exact = dtype == DType::kFloat32 && precision == Float32Precision::kIeee;
  if (is_exact) return {CUDNN_FMA_MATH};
  return {CUDNN_TENSOR_OP_MATH, CUDNN_DEFAULT_MATH};
}

// The math type to run an algorithm with: the one with which it was found, unless float32 must not
// be rounded. An algorithm that may round operands more than we allow is not used.
inline std::optional<cudnnMathType_t> cudnn_math_type_of(DType dtype, Float32Precision precision,
                                                         cudnnMathType_t found) {
  if (size_of(dtype) == 2) return found;
  if (found == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return std::nullopt;
  if (dtype == DType::kFloat64 || precision == Float32Precision::kTf32) return found;
  if (found == CUDNN_FMA_MATH || found == CUDNN_DEFAULT_MATH) return CUDNN_FMA_MATH;
  return std::nullopt;
}

// The algorithms that cuDNN knows, fastest first as it expects, without those that may give other
// bits the next time.
template <class Performance, class Find>
std::vector<Performance> find_cudnn_algorithms(const CudnnLibrary& library, Winograd winograd,
                                               const char* name, const Find& find) {
  std::vector<Performance> found(16);
  int count = 0;
  const cudnnStatus_t status = find(static_cast<int>(found.size()), &count, found.data());
  if (status != CUDNN_STATUS_SUCCESS) {
    logging::info(std::string("[kernels] cuDNN: ") + name + ": " + library.error_string(status));
    return {};
  }
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [winograd](const Performance& each) {
    return each.status != CUDNN_STATUS_SUCCESS || each.determinism != CUDNN_DETERMINISTIC ||
           (winograd == Winograd::kNever && is_winograd(each.algo));
  });
  if (winograd == Winograd::kFirst) {
    std::ranges::stable_partition(found, [](const auto& each) { return is_winograd(each.algo); });
  }
  return found;
}

// The first such algorithm that needs no more memory than requested; nothing if there is none.
// `find` is one of cuDNN's three functions with all arguments but the last three bound, `name` is
// its name. `measure` returns the memory that an algorithm needs, because with the convolution's
// math type it may need another amount than was found. Leaves one of the math types in the
// descriptor.
template <class Performance, class Find, class Measure>
auto choose_cudnn_algorithm(const CudnnLibrary& library, cudnnConvolutionDescriptor_t convolution,
                            const CudnnRequest& request, const char* name, const Find& find,
                            const Measure& measure)
    -> std::optional<CudnnChoice<decltype(Performance::algo)>> {
  for (const cudnnMathType_t asked : cudnn_math_types(request.dtype, request.precision)) {
    library.check(library.set_math_type(convolution, asked), "set_math_type");
    for (const Performance& each :
         find_cudnn_algorithms<Performance>(library, request.winograd, name, find)) {
      const auto math_type = cudnn_math_type_of(request.dtype, request.precision, each.mathType);
      if (!math_type) continue;
      library.check(library.set_math_type(convolution, *math_type), "set_math_type");
      std::size_t scratch_bytes = 0;
      const bool fits = measure(each.algo, &scratch_bytes) == CUDNN_STATUS_SUCCESS &&
                        scratch_bytes <= request.scratch_limit_bytes;
      if (fits)
        return CudnnChoice<decltype(Performance::algo)>{each.algo, *math_type, scratch_bytes};
    }
  }
  return std::nullopt;
}

}  // namespace ddp::cu
