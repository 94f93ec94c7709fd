// SPDX-License-Identifier: MIT
//
// Chooses cuDNN's algorithm for a convolution. For sources compiled with cuDNN only.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/dtype.h"
#include "ddp/base/log.h"
#include "ddp/kernels/conv2d/cudnn_library.h"

namespace ddp::cu {

constexpr std::size_t kCudnnScratchLimitBytes = std::size_t{256} << 20;

template <class Algorithm>
struct CudnnChoice {
  Algorithm algorithm;
  cudnnMathType_t math_type;
  std::size_t scratch_bytes;
};

// The math types to ask cuDNN for, in order, until it knows an algorithm. The default permits
// tensor cores from Ampere on. It comes first for 16-bit operands, because CUDNN_TENSOR_OP_MATH has
// produced NaN for bfloat16; float32 operands it would round to TF32. It rounds no float64, and is
// what PyTorch asks for there, so that it comes first, too.
inline std::vector<cudnnMathType_t> cudnn_math_types(DType dtype) {
  if (size_of(dtype) == 2) return {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH};
  if (dtype == DType::kFloat64) return {CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH};
  return {CUDNN_FMA_MATH};
}

// The math type to run an algorithm with. For 16-bit operands it is the one with which the
// algorithm was found, and so it is for float64, which tensor cores do not round. An algorithm that
// may round operands more than we allow is not used.
inline std::optional<cudnnMathType_t> cudnn_math_type_of(DType dtype, cudnnMathType_t found) {
  if (size_of(dtype) == 2) return found;
  if (found == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return std::nullopt;
  if (dtype == DType::kFloat64) return found;
  if (found == CUDNN_FMA_MATH || found == CUDNN_DEFAULT_MATH) return CUDNN_FMA_MATH;
  return std::nullopt;
}

// The algorithm that cuDNN considers fastest among those that always give the same bits; nothing if
// there is none. `find` is one of cuDNN's three functions with all arguments but the last three
// bound, `name` is its name. `measure` returns the memory that an algorithm needs, because with the
// convolution's math type it may need another amount than was found. Leaves one of the math types
// in the descriptor.
template <class Performance, class Find, class Measure>
auto choose_cudnn_algorithm(const CudnnLibrary& library, cudnnConvolutionDescriptor_t convolution,
                            DType dtype, const char* name, const Find& find, const Measure& measure)
    -> std::optional<CudnnChoice<decltype(Performance::algo)>> {
  for (const cudnnMathType_t asked : cudnn_math_types(dtype)) {
    library.check(library.set_math_type(convolution, asked), "set_math_type");
    std::array<Performance, 16> found{};
    int count = 0;
    const cudnnStatus_t status = find(static_cast<int>(found.size()), &count, found.data());
    if (status != CUDNN_STATUS_SUCCESS) {
      logging::info(std::string("[kernels] cuDNN: ") + name + ": " + library.error_string(status));
      continue;
    }
    for (int i = 0; i < count; ++i) {
      const Performance& each = found.at(static_cast<std::size_t>(i));
      const auto math_type = cudnn_math_type_of(dtype, each.mathType);
      if (each.status != CUDNN_STATUS_SUCCESS || each.determinism != CUDNN_DETERMINISTIC) continue;
      if (!math_type) continue;
      library.check(library.set_math_type(convolution, *math_type), "set_math_type");
      std::size_t scratch_bytes = 0;
      const bool fits = measure(each.algo, &scratch_bytes) == CUDNN_STATUS_SUCCESS &&
                        scratch_bytes <= kCudnnScratchLimitBytes;
      if (fits)
        return CudnnChoice<decltype(Performance::algo)>{each.algo, *math_type, scratch_bytes};
    }
  }
  return std::nullopt;
}

}  // namespace ddp::cu
