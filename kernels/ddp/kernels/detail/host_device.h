// SPDX-License-Identifier: MIT
//
// For functions that both the CPU and the CUDA version of a kernel call.
#pragma once

#ifdef __CUDACC__
#define DDP_HOST_DEVICE __host__ __device__
#else
#define DDP_HOST_DEVICE
#endif
