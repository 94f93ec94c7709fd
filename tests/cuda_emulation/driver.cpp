// SPDX-License-Identifier: MIT
//
// The driver function that libddp calls if the driver is loaded. It reports that every device has a
// context.
#include <cuda.h>

#include "cuda_emulation/device.h"

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (device < 0 || device >= ddp::emulation::device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
