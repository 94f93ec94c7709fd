// SPDX-License-Identifier: MIT
//
// Stands in for buffer_ops_cuda.cu in a build without the CUDA toolkit.
#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::cu {
namespace {

[[noreturn]] void refuse() { throw CudaError("this build of libddp has no CUDA support"); }

}  // namespace

void fill(const Buffer&, double, Stream) { refuse(); }
void copy(const Buffer&, const Buffer&, Stream) { refuse(); }
void cast(const Buffer&, const Buffer&, Stream) { refuse(); }
void scale(const Buffer&, double, Stream) { refuse(); }
void scale_by_value_at(const Buffer&, const double*, Stream) { refuse(); }
void reduce(const Buffer&, const Buffer&, ReduceOp, Stream) { refuse(); }
void reciprocal(const Buffer&, Stream) { refuse(); }
void is_finite(const Buffer&, std::uint8_t*, Stream) { refuse(); }
void fingerprint(const Buffer&, std::uint64_t*, Stream) { refuse(); }

}  // namespace ddp::cu
