// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::test {

// True once a test has left a thread behind in a call that does not return, such as one of NCCL
// that waits for a rank. The process then ends without exit handlers: they would take away what
// such a thread uses.
inline bool has_abandoned_threads = false;

}  // namespace ddp::test
