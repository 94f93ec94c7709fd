// SPDX-License-Identifier: MIT
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/gemm.h"

namespace ddp::cu {
namespace {

// The build's own major version first: a newer cuBLAS may need a newer driver.
constexpr int kOwnVersion = CUDART_VERSION / 1000;
constexpr std::array kLibraryVersions{kOwnVersion, kOwnVersion == 13 ? 12 : 13};

// Never closed: cuBLAS registers code with the CUDA runtime that cannot be taken back.
void* open_library() {
  std::string reasons;
  for (const int version : kLibraryVersions) {
    const std::string name = "libcublas.so." + std::to_string(version);
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reasons += std::string(reasons.empty() ? "" : "; ") + dlerror();
  }
  throw CudaError("[kernels] cannot open cuBLAS (is its folder in LD_LIBRARY_PATH?): " + reasons);
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw CudaError(std::string("[kernels] cuBLAS lacks ") + name);
  function = reinterpret_cast<Function>(symbol);
}

}  // namespace

struct Blas::Library {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  decltype(&cublasDgemm_v2) dgemm = nullptr;
  decltype(&cublasSgemmStridedBatched) sgemm_batched = nullptr;
  decltype(&cublasDgemmStridedBatched) dgemm_batched = nullptr;
  cublasHandle_t handle = nullptr;

  Library() {
    void* library = open_library();
    load(library, "cublasCreate_v2", create);
    load(library, "cublasDestroy_v2", destroy);
    load(library, "cublasSetStream_v2", set_stream);
    load(library, "cublasGetStatusString", status_string);
    load(library, "cublasSgemm_v2", sgemm);
    load(library, "cublasDgemm_v2", dgemm);
    load(library, "cublasSgemmStridedBatched", sgemm_batched);
    load(library, "cublasDgemmStridedBatched", dgemm_batched);
  }
  ~Library() {
    if (handle != nullptr) destroy(handle);
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

Blas::Blas(Device device) : library_(std::make_unique<Library>()) {
  const DeviceGuard guard(device);
  DDP_CUBLAS_CHECK(*library_, create, &library_->handle);
}
Blas::Blas(Blas&&) noexcept = default;
Blas& Blas::operator=(Blas&&) noexcept = default;
Blas::~Blas() = default;

namespace {

cublasOperation_t to_cublas(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// cuBLAS is column-major, and a row-major matrix read so is its transpose: C' = op(B)' op(A)'.
template <class T, class BlasGemm>
void multiply(const Blas::Library& library, BlasGemm blas_gemm, const Buffer& a, const Buffer& b,
              const Buffer& c, const GemmShape& shape, const GemmOptions& options) {
  const auto [m, n, k] = shape;
  const T alpha = static_cast<T>(options.alpha);
  const T beta = static_cast<T>(options.beta);
  library.check(
      blas_gemm(library.handle, to_cublas(options.transpose_b), to_cublas(options.transpose_a),
                detail::blas_int(n), detail::blas_int(m), detail::blas_int(k), &alpha,
                static_cast<const T*>(b.data), detail::leading_dimension(options.transpose_b, k, n),
                static_cast<const T*>(a.data), detail::leading_dimension(options.transpose_a, m, k),
                &beta, static_cast<T*>(c.data), detail::blas_int(n)),
      "gemm");
}

// From one operand of a batch to the next: 0 if there is but one.
long long stride_of(const Buffer& operand, std::size_t matrix) {
  return operand.count == matrix ? 0 : static_cast<long long>(matrix);
}

template <class T, class BlasGemm>
void multiply_batch(const Blas::Library& library, BlasGemm blas_gemm, const Buffer& a,
                    const Buffer& b, const Buffer& c, const GemmShape& shape,
                    const GemmOptions& options) {
  const auto [m, n, k] = shape;
  const T alpha = static_cast<T>(options.alpha);
  const T beta = static_cast<T>(options.beta);
  library.check(
      blas_gemm(library.handle, to_cublas(options.transpose_b), to_cublas(options.transpose_a),
                detail::blas_int(n), detail::blas_int(m), detail::blas_int(k), &alpha,
                static_cast<const T*>(b.data), detail::leading_dimension(options.transpose_b, k, n),
                stride_of(b, k * n), static_cast<const T*>(a.data),
                detail::leading_dimension(options.transpose_a, m, k), stride_of(a, m * k), &beta,
                static_cast<T*>(c.data), detail::blas_int(n), static_cast<long long>(m * n),
                detail::blas_int(c.count / (m * n))),
      "gemm_batched");
}

}  // namespace

void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options, Blas& blas, Stream stream) {
  detail::check_gemm(a, b, c, shape);
  if (c.count == 0) return;
  // An empty batch has null operands, which cuBLAS need not accept.
  if (shape.k == 0 && options.beta == 0) return cu::fill(c, 0, stream);
  const DeviceGuard guard(c.device);
  const Blas::Library& library = blas.library();
  DDP_CUBLAS_CHECK(library, set_stream, library.handle, static_cast<cudaStream_t>(stream.native));
  detail::dispatch_float("gemm", c.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) == sizeof(float)) {
      multiply<T>(library, library.sgemm, a, b, c, shape, options);
    } else {
      multiply<T>(library, library.dgemm, a, b, c, shape, options);
    }
  });
}

void gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                  const GemmOptions& options, Blas& blas, Stream stream) {
  detail::check_gemm_batched(a, b, c, shape);
  if (c.count == 0) return;
  if (shape.k == 0 && options.beta == 0) return cu::fill(c, 0, stream);
  const DeviceGuard guard(c.device);
  const Blas::Library& library = blas.library();
  DDP_CUBLAS_CHECK(library, set_stream, library.handle, static_cast<cudaStream_t>(stream.native));
  detail::dispatch_float("gemm_batched", c.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) == sizeof(float)) {
      multiply_batch<T>(library, library.sgemm_batched, a, b, c, shape, options);
    } else {
      multiply_batch<T>(library, library.dgemm_batched, a, b, c, shape, options);
    }
  });
}

}  // namespace ddp::cu
