// SPDX-License-Identifier: MIT
//
// Where a worker was when SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT ended it: a file at
// DDP_CRASH_FILE, from which ddp-launch finds the names of the functions.
//   file    = mapping* "\n" frame*
//   mapping = a line of /proc/self/maps, see proc(5)
//   frame   = ("at " | "call ") ADDRESS "\n"
// The frames are those of the thread that got the signal, the innermost first: the current
// instruction ("at"), then the return addresses of calls. ADDRESS is hexadecimal.
#pragma once

namespace ddp {

// From now on this process leaves such a record. Signals that have a handler (a sanitizer's, the
// program's) are left alone, and a handler that is installed later replaces this one. The process
// ends as it would have without it: by the same signal, with a core dump if those are enabled; also
// if the handler crashes or hangs for two seconds.
//
// Does nothing without DDP_CRASH_FILE, or when called again. A stack overflow is recorded only in
// the thread that calls this; in others the kernel has no stack on which to run a handler.
void record_crashes() noexcept;

}  // namespace ddp
