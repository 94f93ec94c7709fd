// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::bench {

// To be called first in main. OpenBLAS reads its variable when it is loaded, before main: unless it
// says one thread already, the program starts itself again.
void use_one_blas_thread(char** argv);

}  // namespace ddp::bench
