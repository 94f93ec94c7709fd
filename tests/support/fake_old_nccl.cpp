// SPDX-License-Identifier: MIT
//
// An NCCL 2.18.5 that has nothing but its version.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
