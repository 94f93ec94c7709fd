// SPDX-License-Identifier: MIT
//
// Which of cuDNN's algorithms a convolution runs with. For sources compiled with cuDNN only.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/dtype.h"
#include "ddp/base/log.h"
#include "ddp/kernels/detail/cudnn_library.h"

namespace ddp::cu {

constexpr std::size_t kCudnnScratchLimitBytes = std::size_t{256} << 20;

template <class Algorithm>
struct CudnnChoice {
  Algorithm algorithm;
  cudnnMathType_t math_type;
  std::size_t scratch_bytes;
};

// What cuDNN is asked with, one after the other until it knows an algorithm. The default permits
// tensor cores from Ampere on. For 16-bit operands it comes first, since others have got NaN of
// bfloat16 with CUDNN_TENSOR_OP_MATH; float32 ones it would round to TF32.
inline std::vector<cudnnMathType_t> cudnn_math_types(DType dtype) {
  if (size_of(dtype) == 2) return {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH};
  return {CUDNN_FMA_MATH};
}

// The math type that an algorithm is run with. For 16-bit operands the one that it was found with;
// others must not round more than we allow, and go without one that does.
inline std::optional<cudnnMathType_t> cudnn_math_type_of(DType dtype, cudnnMathType_t found) {
  if (size_of(dtype) == 2) return found;
  if (found == CUDNN_FMA_MATH || found == CUDNN_DEFAULT_MATH) return CUDNN_FMA_MATH;
  return std::nullopt;
}

// The fastest algorithm, in cuDNN's opinion, that always gives the same bits; nothing if there is
// none. `find` is one of its three functions with all arguments but the last three, `name` is its;
// `measure` tells what memory an algorithm needs, because what was found may need another amount
// with the convolution's math type. Leaves some math type in the descriptor.
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
      log::info(std::string("[kernels] cuDNN: ") + name + ": " + library.error_string(status));
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
