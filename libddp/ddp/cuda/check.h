// SPDX-License-Identifier: MIT
//
// Only for sources that are compiled with CUDA.
#pragma once

#include <cuda_runtime_api.h>

namespace ddp::cu {

// If `status` is not success, clears CUDA's last error, so that the next unrelated call does not
// report it again, and throws CudaError with the expression, the error's name and its text.
void check(cudaError_t status, const char* expression);

}  // namespace ddp::cu

#define DDP_CUDA_CHECK(expression) ::ddp::cu::check((expression), #expression)
