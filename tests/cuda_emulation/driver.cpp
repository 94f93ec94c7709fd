// SPDX-License-Identifier: MIT
//
// The driver function that libddp calls if the driver is loaded.
#include <cuda.h>

#include "cuda_emulation/device.h"

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (device < 0 || device >= ddp::emulation::device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = ddp::emulation::has_context(device) ? 1 : 0;
  return CUDA_SUCCESS;
}
