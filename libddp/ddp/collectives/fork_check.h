// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Throws std::logic_error, which says why, if a fork of this process could not go on: it has other
// threads, whose locks the child would inherit without them, or has initialised CUDA. Threads of
// libraries that end them when a fork is coming do not count; they are ended by then.
void check_can_fork();

}  // namespace ddp
