// SPDX-License-Identifier: MIT
//
// Where a worker was when SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT ended it: a file at
// DDP_CRASH_FILE, from which ddp-launch reads the names of the functions.
//   file    = mapping* "\n" frame*
//   mapping = a line of /proc/self/maps, see proc(5)
//   frame   = ("at " | "call ") ADDRESS "\n"
// The frames are those of the thread that got the signal, innermost first: where it stood ("at"),
// then the addresses to which calls would have returned. ADDRESS is hexadecimal.
#pragma once

namespace ddp {

// From here on this process leaves such a record. Signals that have a handler are left alone (a
// sanitizer's, the program's), and one that is installed later takes this one's place. The process
// ends as it would have: by the same signal, with a core dump if those are kept. A crash of the
// handler, or its standing still for two seconds, changes nothing of this either.
//
// Does nothing if nobody waits for a record, or if called a second time. Stack overflows are seen
// in the thread that calls this; in others the kernel has no place to run a handler.
void record_crashes() noexcept;

}  // namespace ddp
