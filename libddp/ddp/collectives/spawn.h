// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

namespace ddp {

// Several ranks without a launcher, as torch.multiprocessing.spawn: runs fn(rank) in `nprocs`
// processes forked from this one, which hosts their store and gives them the environment that
// ddp-launch gives its workers, so that init_process_group() in fn finds the others. Returns when
// all have returned from fn.
//
// When one fails, the others get SIGTERM, after two seconds SIGKILL, and Error names the rank, its
// process and the cause: what fn threw, the exit code or the signal. A rank that failed since a
// peer did is not named while there is anybody else. No child outlives this process.
//
// A forked process has the caller's thread alone, and CUDA does not survive a fork: throws
// std::logic_error if this process has other threads (but for those of libraries that end them
// before a fork, as OpenBLAS does) or has used CUDA; std::invalid_argument if nprocs is below 1.
// OMP_NUM_THREADS, if it is not set, becomes each child's share of the CPUs; a library that has
// been loaded by then may not look again.
void spawn(const std::function<void(int rank)>& fn, int nprocs);

}  // namespace ddp
