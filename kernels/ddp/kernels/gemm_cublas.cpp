// SPDX-License-Identifier: MIT
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/system/dynamic_library.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/gemm.h"

namespace ddp::cu {
namespace {

// The build's own major version first: a newer cuBLAS may need a newer driver.
constexpr int kOwnVersion = CUDART_VERSION / 1000;
constexpr std::array kLibraryVersions{kOwnVersion, kOwnVersion == 13 ? 12 : 13};

// cuBLAS registers code with the CUDA runtime that cannot be taken back.
DynamicLibrary open_library() {
  std::string reasons;
  for (const int version : kLibraryVersions) {
    DynamicLibrary library("libcublas.so." + std::to_string(version),
                           DynamicLibrary::Lifetime::kProcess);
    if (library.is_open()) return library;
    reasons += (reasons.empty() ? "" : "; ") + library.problem();
  }
  throw CudaError("[kernels] cannot open cuBLAS (is its folder in LD_LIBRARY_PATH?): " + reasons);
}

// The header overloads both, so decltype cannot tell them.
using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                  int, const void*, const void*, cudaDataType, int, const void*,
                                  cudaDataType, int, const void*, void*, cudaDataType, int,
                                  cublasComputeType_t, cublasGemmAlgo_t);
using GemmStridedBatchedEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t,
                                                cublasOperation_t, int, int, int, const void*,
                                                const void*, cudaDataType, int, long long,
                                                const void*, cudaDataType, int, long long,
                                                const void*, void*, cudaDataType, int, long long,
                                                int, cublasComputeType_t, cublasGemmAlgo_t);

}  // namespace

struct Blas::Library {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  GemmEx gemm = nullptr;
  GemmStridedBatchedEx gemm_batched = nullptr;
  Device device;
  Float32Precision precision;
  cublasHandle_t handle = nullptr;

  Library(Device of, Float32Precision with) : device(of), precision(with) {
    const DynamicLibrary library = open_library();
    library.load("cublasCreate_v2", create);
    library.load("cublasDestroy_v2", destroy);
    library.load("cublasSetStream_v2", set_stream);
    library.load("cublasGetStatusString", status_string);
    library.load("cublasSetMathMode", set_math_mode);
    library.load("cublasGemmEx", gemm);
    library.load("cublasGemmStridedBatchedEx", gemm_batched);
  }
  // cuBLAS wants the handle's device to be the current one from its creation to its end.
  ~Library() {
    if (handle == nullptr) return;
    try {
      const DeviceGuard guard(device);
      destroy(handle);
    } catch (const CudaError&) {
      // The device is lost, and the handle with it.
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    static_cast<void>(cudaGetLastError());
    throw CudaError(std::string("[kernels] ") + call + ": " + status_string(status));
  }
};

#define DDP_CUBLAS_CHECK(library, call, ...) (library).check((library).call(__VA_ARGS__), #call)

Blas::Blas(Device device, Float32Precision precision)
    : library_(std::make_unique<Library>(device, precision)) {
  const DeviceGuard guard(device);
  DDP_CUBLAS_CHECK(*library_, create, &library_->handle);
  // Products of 16-bit numbers are added up in float32 to the end.
  DDP_CUBLAS_CHECK(*library_, set_math_mode, library_->handle,
                   CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}
Blas::Blas(Blas&&) noexcept = default;
Blas& Blas::operator=(Blas&&) noexcept = default;
Blas::~Blas() = default;

namespace {

cublasOperation_t to_cublas(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cudaDataType to_cublas(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

// A factor in the type that sums have: float64 for float64 operands, else float32.
class Factor {
 public:
  Factor(double value, DType dtype)
      : exact_(value), single_(static_cast<float>(value)), is_exact_(dtype == DType::kFloat64) {}
  [[nodiscard]] const void* data() const {
    return is_exact_ ? static_cast<const void*>(&exact_) : &single_;
  }

 private:
  double exact_;
  float single_;
  bool is_exact_;
};

// How operands are multiplied and summed.
cublasComputeType_t to_cublas(DType dtype, Float32Precision precision) {
  if (dtype == DType::kFloat64) return CUBLAS_COMPUTE_64F;
  const bool is_rounded = dtype == DType::kFloat32 && precision == Float32Precision::kTf32;
  return is_rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

void check_dtype(const char* kernel, DType dtype) {
  if (!is_floating_point(dtype)) detail::refuse_dtype(kernel, dtype);
}

// From one operand of a batch to the next: 0 if there is but one.
long long stride_of(const Buffer& operand, std::size_t matrix) {
  return operand.count == matrix ? 0 : static_cast<long long>(matrix);
}

// What is left of a product without terms, for which some versions of cuBLAS write nothing.
void multiply_by_beta(const Buffer& c, double beta, Stream stream) {
  if (beta == 0) return cu::fill(c, 0, stream);  // c may hold NaN
  if (beta != 1) cu::scale(c, beta, stream);
}

// A product as cuBLAS takes it, which is column-major, and to which a row-major matrix is its own
// transpose: C' = op(B)' op(A)'.
struct Product {
  cublasOperation_t b_operation, a_operation;
  int columns, rows, terms;
  int ldb, lda;
  const void *alpha, *beta;
  cudaDataType type;
  cublasComputeType_t compute;
};

// Calls call(library, product) if the product has terms.
template <class Call>
void multiply(const Buffer& c, const GemmShape& shape, const GemmOptions& options, Blas& blas,
              Stream stream, const Call& call) {
  if (c.count == 0) return;
  if (shape.k == 0) return multiply_by_beta(c, options.beta, stream);
  const auto [m, n, k] = shape;
  const DeviceGuard guard(c.device);
  const Blas::Library& library = blas.library();
  const Factor alpha(options.alpha, c.dtype), beta(options.beta, c.dtype);
  DDP_CUBLAS_CHECK(library, set_stream, library.handle, stream.native);
  call(library, Product{.b_operation = to_cublas(options.transpose_b),
                        .a_operation = to_cublas(options.transpose_a),
                        .columns = detail::blas_int(n),
                        .rows = detail::blas_int(m),
                        .terms = detail::blas_int(k),
                        .ldb = detail::leading_dimension(options.transpose_b, k, n),
                        .lda = detail::leading_dimension(options.transpose_a, m, k),
                        .alpha = alpha.data(),
                        .beta = beta.data(),
                        .type = to_cublas(c.dtype),
                        .compute = to_cublas(c.dtype, library.precision)});
}

}  // namespace

void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options, Blas& blas, Stream stream) {
  detail::check_gemm(a, b, c, shape);
  check_dtype("gemm", c.dtype);
  multiply(c, shape, options, blas, stream, [&](const Blas::Library& library, const Product& p) {
    DDP_CUBLAS_CHECK(library, gemm, library.handle, p.b_operation, p.a_operation, p.columns, p.rows,
                     p.terms, p.alpha, b.data, p.type, p.ldb, a.data, p.type, p.lda, p.beta, c.data,
                     p.type, p.columns, p.compute, CUBLAS_GEMM_DEFAULT);
  });
}

void gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                  const GemmOptions& options, Blas& blas, Stream stream) {
  detail::check_gemm_batched(a, b, c, shape);
  check_dtype("gemm_batched", c.dtype);
  const auto [m, n, k] = shape;
  const long long stride_a = stride_of(a, m * k), stride_b = stride_of(b, k * n);
  const std::size_t result = m * n;
  multiply(c, shape, options, blas, stream, [&](const Blas::Library& library, const Product& p) {
    DDP_CUBLAS_CHECK(library, gemm_batched, library.handle, p.b_operation, p.a_operation, p.columns,
                     p.rows, p.terms, p.alpha, b.data, p.type, p.ldb, stride_b, a.data, p.type,
                     p.lda, stride_a, p.beta, c.data, p.type, p.columns,
                     static_cast<long long>(result), detail::blas_int(c.count / result), p.compute,
                     CUBLAS_GEMM_DEFAULT);
  });
}

}  // namespace ddp::cu
