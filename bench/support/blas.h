// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::bench {

// To be called first in main: OpenBLAS and oneDNN's OpenMP get one thread. OpenBLAS reads its
// variable when it is loaded, before main: unless both say so already, the program starts itself
// again.
void use_one_blas_thread(char** argv);

}  // namespace ddp::bench
