// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

namespace ddp {

// Runs fn(rank) in `nprocs` processes forked from this one, as torch.multiprocessing.spawn does:
// several ranks without a launcher. This process hosts their store and gives them the environment
// that ddp-launch gives its workers, so that init_process_group() in fn finds the other ranks.
// Returns when all of them have returned from fn.
//
// When a rank fails, the others get SIGTERM, and SIGKILL two seconds later. The Error then names
// the rank, its process and the cause: what fn threw, the exit code or the signal. It names a rank
// that failed because of a peer only if no other rank failed. No child outlives this process. A
// rank may end without joining init_process_group(); where others wait for it there, they throw an
// EnvironmentError that names it, within a few seconds.
//
// A forked process has only the calling thread, and CUDA does not survive a fork: throws
// std::logic_error if this process has other threads (except those of libraries that stop them
// before a fork, as OpenBLAS does) or has used CUDA. std::invalid_argument if nprocs is below 1. If
// OMP_NUM_THREADS is not set, it is set to each child's share of the CPUs; a library that is
// already loaded may have read it before. Needs pidfd_open, which Linux has since 5.3.
void spawn(const std::function<void(int rank)>& fn, int nprocs);

}  // namespace ddp
