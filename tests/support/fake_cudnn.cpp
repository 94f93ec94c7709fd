// SPDX-License-Identifier: MIT
//
// A cuDNN that does not work: it lacks its functions, as one that is installed only in part.
extern "C" __attribute__((visibility("default"))) const char* cudnnGetErrorString(int) {
  return "what cuDNN says";
}
