// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Throws std::logic_error with the reason if a forked child of this process could not work: because
// other threads exist, whose locks the child would inherit locked, or because CUDA is initialised.
// Threads of libraries that stop them before a fork do not count; this call makes them stop.
void check_can_fork();

}  // namespace ddp
