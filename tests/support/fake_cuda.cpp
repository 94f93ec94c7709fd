// SPDX-License-Identifier: MIT
//
// A libcuda.so.1 that says whether it has been initialised: what spawn() asks of it.
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int cuDeviceGetCount(int* count) {
  constexpr int kNotInitialized = 3;
  *count = 0;
  return std::getenv("FAKE_CUDA_INITIALIZED") == nullptr ? kNotInitialized : 0;
}
