// SPDX-License-Identifier: MIT
//
// A libcublas that computes matrix products on a stream of the emulation, by their definition, with
// sums in float64. Where TF32 is allowed, it rounds.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "cuda_emulation/device.h"

struct cublasContext {
  int device = ddp::emulation::current_device;
  cudaStream_t stream = nullptr;
};

namespace {

struct Operand {
  const void* data;
  cudaDataType type;
  int leading_dimension;
  cublasOperation_t operation;
  bool is_rounded = false;  // to TF32
};

double element(const void* data, cudaDataType type, std::size_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

// The nearest TF32, which is a float without its last 13 bits; a tie goes away from zero.
float to_tf32(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1fffU);
}

void set_element(void* data, cudaDataType type, std::size_t i, double value) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = value;
      break;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __double2half(value);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __double2bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

double factor(const void* value, cublasComputeType_t compute) {
  return element(value, compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F, 0);
}

void* at(const void* data, cudaDataType type, long long offset) {
  return static_cast<char*>(const_cast<void*>(data)) +
         offset * static_cast<long long>(size_of(type));
}

// Returns op(operand), which has rows x columns elements, in row-major order or, if `by_columns`,
// in column-major order.
std::vector<double> matrix(const Operand& operand, int rows, int columns, bool by_columns) {
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  const auto stride = static_cast<std::size_t>(operand.leading_dimension);
  const bool is_transposed = operand.operation != CUBLAS_OP_N;
  std::vector<double> result(r * c);
  for (std::size_t i = 0; i < r; ++i) {
    for (std::size_t j = 0; j < c; ++j) {
      const std::size_t source = is_transposed ? j + i * stride : i + j * stride;
      const double value = element(operand.data, operand.type, source);
      result[by_columns ? j * r + i : i * c + j] =
          operand.is_rounded ? to_tf32(static_cast<float>(value)) : value;
    }
  }
  return result;
}

struct Product {
  int m, n, k;
  double alpha, beta;
  Operand a, b, c;  // the product is written to c
  long long stride_a = 0, stride_b = 0, stride_c = 0;
  int count = 1;

  [[nodiscard]] bool is_valid() const {
    const auto fits = [](const Operand& x, int rows, int columns) {
      const int least = std::max(1, x.operation == CUBLAS_OP_N ? rows : columns);
      return x.data != nullptr && x.leading_dimension >= least;
    };
    return m >= 0 && n >= 0 && k >= 0 && fits(a, m, k) && fits(b, k, n) && fits(c, m, n);
  }

  void run() {
    for (int i = 0; i < count; ++i) {
      run_one();
      a.data = at(a.data, a.type, stride_a);
      b.data = at(b.data, b.type, stride_b);
      c.data = at(c.data, c.type, stride_c);
    }
  }

 private:
  // Without a sum, nothing is written, as was seen of batched products (PyTorch issue 31421).
  void run_one() const {
    if (k == 0) return;
    const std::vector<double> left = matrix(a, m, k, true), right = matrix(b, k, n, true);
    const auto depth = static_cast<std::size_t>(k), height = static_cast<std::size_t>(m);
    // A column at a time: the compiler may not reorder a sum, but may form several at once.
    std::vector<double> sums(height);
    for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::size_t p = 0; p < depth; ++p) {
        const double factor = right[j * depth + p];
        const double* const column = &left[p * height];
        for (std::size_t i = 0; i < height; ++i) sums[i] += column[i] * factor;
      }
      for (std::size_t i = 0; i < height; ++i) {
        const std::size_t target = i + j * static_cast<std::size_t>(c.leading_dimension);
        const double old = beta == 0 ? 0 : beta * element(c.data, c.type, target);
        set_element(const_cast<void*>(c.data), c.type, target, alpha * sums[i] + old);
      }
    }
  }
};

// Whether the operands of a product are rounded.
bool rounds(cublasComputeType_t compute) { return compute == CUBLAS_COMPUTE_32F_FAST_TF32; }

// A handle works while the device on which it was made is the current one, also to its end.
bool is_usable(cublasHandle_t handle) {
  return handle->device == ddp::emulation::current_device &&
         handle->device == ddp::emulation::device_of(handle->stream);
}

cublasStatus_t enqueue(cublasHandle_t handle, const Product& product) {
  if (!product.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
  ddp::emulation::use_current_device();
  if (!is_usable(handle)) return CUBLAS_STATUS_EXECUTION_FAILED;
  ddp::emulation::queue_of(handle->stream).push([product = product]() mutable { product.run(); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  ddp::emulation::use_current_device();
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  ddp::emulation::use_current_device();
  if (handle->device != ddp::emulation::current_device) {
    std::fputs("[cuda emulation] cublasDestroy() on another device than cublasCreate()\n", stderr);
    std::abort();
  }
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CPU emulation";
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int lda, const void* b, cudaDataType type_b,
                            int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  return enqueue(handle, {m,
                          n,
                          k,
                          factor(alpha, compute),
                          factor(beta, compute),
                          {a, type_a, lda, op_a, rounds(compute)},
                          {b, type_b, ldb, op_b, rounds(compute)},
                          {c, type_c, ldc, CUBLAS_OP_N}});
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType type_a,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType type_c, int ldc,
                                          long long stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  return enqueue(handle, {m,
                          n,
                          k,
                          factor(alpha, compute),
                          factor(beta, compute),
                          {a, type_a, lda, op_a, rounds(compute)},
                          {b, type_b, ldb, op_b, rounds(compute)},
                          {c, type_c, ldc, CUBLAS_OP_N},
                          stride_a,
                          stride_b,
                          stride_c,
                          count});
}
