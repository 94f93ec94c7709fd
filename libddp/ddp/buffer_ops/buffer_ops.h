// SPDX-License-Identifier: MIT
//
// Element-wise operations on buffers, without BLAS. Each but reduce_terms, which is the CPU's
// alone, exists twice, with the same name and argument order: ddp::cpu runs on the calling thread
// and is the reference; ddp::cu enqueues on a stream. The functions in ddp itself choose by the
// buffer's device. 16-bit types are computed in float32. Operands must agree in count, device and
// (except for cast) dtype; otherwise std::invalid_argument.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"
#include "ddp/base/stream.h"

namespace ddp::cpu {

void fill(const Buffer& target, double value);
void copy(const Buffer& source, const Buffer& target);
// target = convert(source), the only operation whose dtypes may differ. Floating point to integer
// truncates towards zero and saturates (NaN becomes 0); integer to integer wraps around.
void cast(const Buffer& source, const Buffer& target);
// target *= factor, for floating-point types. The factor is first rounded to the compute type.
void scale(const Buffer& target, double factor);
// target *= *factor, which is read when the operation runs. It must not lie in the target.
void scale_by_value_at(const Buffer& target, const double* factor);
// target = 1 / target, for floating-point types; 0 stays 0.
void reciprocal(const Buffer& target);
// target = target op source. kAverage only adds; the caller divides. Integers wrap around. min and
// max return NaN if either operand is NaN.
void reduce(const Buffer& source, const Buffer& target, ReduceOp op);
// Every target = terms[0] op terms[1] op ..., from left to right, rounded once at the end; kAverage
// is the sum times `factor`, which is first rounded to the compute type. There must be at least one
// term. A target may be one of the terms; otherwise no two buffers may overlap.
void reduce_terms(std::span<const Buffer> terms, std::span<const Buffer> targets, ReduceOp op,
                  double factor);
// *result = 1 if every element is finite, else 0. Integers are always finite.
void is_finite(const Buffer& source, std::uint8_t* result);
// A 64-bit hash of the bytes; equal bytes give equal values on the CPU and on CUDA. Sum over the
// 8-byte little-endian words w_i (the tail zero-padded) of mix(w_i + (i+1)*C) mod 2^64, where mix
// is the finaliser of splitmix64 and C = 0x9e3779b97f4a7c15.
void fingerprint(const Buffer& source, std::uint64_t* result);

}  // namespace ddp::cpu

// Pointers to factors and results are device memory or pinned host memory.
namespace ddp::cu {

void fill(const Buffer& target, double value, Stream stream);
void copy(const Buffer& source, const Buffer& target, Stream stream);
void cast(const Buffer& source, const Buffer& target, Stream stream);
void scale(const Buffer& target, double factor, Stream stream);
void scale_by_value_at(const Buffer& target, const double* factor, Stream stream);
void reciprocal(const Buffer& target, Stream stream);
void reduce(const Buffer& source, const Buffer& target, ReduceOp op, Stream stream);
void is_finite(const Buffer& source, std::uint8_t* result, Stream stream);
void fingerprint(const Buffer& source, std::uint64_t* result, Stream stream);

}  // namespace ddp::cu

namespace ddp {

void fill(const Buffer& target, double value, Stream stream = {});
void copy(const Buffer& source, const Buffer& target, Stream stream = {});
void cast(const Buffer& source, const Buffer& target, Stream stream = {});
void scale(const Buffer& target, double factor, Stream stream = {});
void scale_by_value_at(const Buffer& target, const double* factor, Stream stream = {});
void reduce(const Buffer& source, const Buffer& target, ReduceOp op, Stream stream = {});
void reciprocal(const Buffer& target, Stream stream = {});
void is_finite(const Buffer& source, std::uint8_t* result, Stream stream = {});
void fingerprint(const Buffer& source, std::uint64_t* result, Stream stream = {});

// The value of a one-element buffer after the work on `stream`. Blocks the host.
[[nodiscard]] double item(const Buffer& source, Stream stream = {});

}  // namespace ddp
