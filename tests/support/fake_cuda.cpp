// SPDX-License-Identifier: MIT
//
// A fake libcuda.so.1 that tells whether it was initialized; spawn() asks it.
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int cuDeviceGetCount(int* count) {
  constexpr int kNotInitialized = 3;
  *count = 0;
  return std::getenv("FAKE_CUDA_INITIALIZED") == nullptr ? kNotInitialized : 0;
}
