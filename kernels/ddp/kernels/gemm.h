// SPDX-License-Identifier: MIT
//
// General matrix product. CPU: oneDNN for float32 unless the product is small, else OpenBLAS, or
// plain loops in a build without it (no_openblas.cpp).
// CUDA: cuBLAS, opened with dlopen when the first cu::Blas is made, because linking it would cost
// every process 68 ms at start-up, even if it never uses a GPU.
//
// CPU threads: these settings are global to the process, so they belong to the program and nothing
// here changes them. oneDNN reads OMP_NUM_THREADS, OpenBLAS OPENBLAS_NUM_THREADS before it, when
// they are loaded, and use every core if neither is set. ddp-launch sets OMP_NUM_THREADS to the
// rank's share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

enum class Transpose : std::uint8_t { kNo, kYes };

// op(A) is m x k, op(B) is k x n, C is m x n.
struct GemmShape {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
};

struct GemmOptions {
  Transpose transpose_a = Transpose::kNo;  // kYes: A is stored as k x m
  Transpose transpose_b = Transpose::kNo;  // kYes: B is stored as n x k
  double alpha = 1;
  double beta = 0;
};

// What a GPU may do to float32 operands before it multiplies them; it sums in float32 in any case.
enum class Float32Precision : std::uint8_t {
  kIeee,  // nothing
  kTf32,  // round them to TF32, which keeps 10 bits after the leading one, for its tensor cores
};

}  // namespace ddp

namespace ddp::cpu {

// C = alpha op(A) op(B) + beta C, all row-major and contiguous, float32 or float64. C is not read
// if beta is 0; any dimension may be 0. Throws std::invalid_argument if a size or dtype does not
// match, and SystemError if there is no memory for OpenBLAS to work in.
void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options);

// Several products of one shape: c holds the results one after the other, as many as fit. a and b
// each hold one operand per product, or a single one that all products share.
void gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                  const GemmOptions& options);

}  // namespace ddp::cpu

namespace ddp::cu {

// A cuBLAS handle on one device. For one thread at a time.
class Blas {
 public:
  // Throws CudaError if cuBLAS cannot be opened (the text lists what was tried) or fails.
  explicit Blas(Device device, Float32Precision precision = Float32Precision::kIeee);
  Blas(Blas&&) noexcept;
  Blas& operator=(Blas&&) noexcept;
  ~Blas();

  struct Library;
  [[nodiscard]] const Library& library() const { return *library_; }

 private:
  std::unique_ptr<Library> library_;
};

// These also take float16 and bfloat16, which are multiplied in that type, on tensor cores where
// there are some, summed in float32 and rounded once.
void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options, Blas& blas, Stream stream);
void gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                  const GemmOptions& options, Blas& blas, Stream stream);

}  // namespace ddp::cu
