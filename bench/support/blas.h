// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::bench {

// Call this first in main. Limits OpenBLAS and oneDNN's OpenMP to one thread. OpenBLAS reads its
// environment variable when it is loaded, before main, so the program restarts itself unless both
// variables are set already.
void use_one_blas_thread(char** argv);

}  // namespace ddp::bench
