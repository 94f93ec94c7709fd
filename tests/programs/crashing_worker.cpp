// SPDX-License-Identifier: MIT
//
//   crashing_worker HOW
//
// A worker that crashes in one of these ways, or has a handler of its own:
//   touch         writes to a page that it may not write to
//   touch-thread  the same on another thread
//   throw         throws an exception that nothing catches
//   overflow      recurses without end
//   raise         sends itself a SIGSEGV
//   stuck         like touch, but reading its stack never ends
//   damaged       calls abort with a stack that cannot be read
//   own-handler   like touch, but has a handler, which exits with 9
//   late-handler  the same, but installs the handler after it creates the process group
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include "ddp/ddp.h"

namespace {

bool unwinder_stands_still = false;

[[gnu::noinline]] void touch_forbidden_page() {
  void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile int*>(page) = 1;
}

[[gnu::noinline]] void throw_unseen() { throw std::runtime_error("thrown on purpose"); }

// Calls nothing but itself, not even a sanitizer's functions, so it is here that the stack ends.
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) int call_without_end(
    volatile int* depth) {
  volatile char padding[1000];
  padding[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return *depth > 0 ? call_without_end(depth) + padding[0] : 0;
}

// Its frame is so far from main's frame that they are on different pages, of up to 64 KiB.
[[gnu::noinline]] char abort_with_damaged_stack(std::uintptr_t frame_of_main) {
  volatile char padding[3 << 16];
  padding[0] = 0;
  const auto page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::mprotect(reinterpret_cast<void*>(frame_of_main & ~(page_size - 1)), page_size, PROT_NONE);
  ::raise(SIGABRT);
  return padding[0];
}

void exit_with_9(int) { ::_exit(9); }

void crash(const std::string& how) {
  if (how == "touch-thread") std::thread(touch_forbidden_page).join();
  if (how == "throw") throw_unseen();
  unwinder_stands_still = how == "stuck";
  if (how == "raise") ::raise(SIGSEGV);
  volatile int depth = 0;
  if (how == "overflow") call_without_end(&depth);
  volatile char here = 0;
  if (how == "damaged") (void)abort_with_damaged_stack(reinterpret_cast<std::uintptr_t>(&here));
  touch_forbidden_page();
}

}  // namespace

// Replaces the unwinder's function for libddp, which is linked into this program.
extern "C" _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn visit, void* state) {
  static const auto real =
      reinterpret_cast<decltype(&_Unwind_Backtrace)>(::dlsym(RTLD_NEXT, "_Unwind_Backtrace"));
  while (unwinder_stands_still) ::pause();
  return real(visit, state);
}

int main(int, char** argv) {
  const std::string how = argv[1];
  // A sanitizer has handlers of its own, which turn a crash into an exit code.
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(signal_number, SIG_DFL);
  if (how == "own-handler") std::signal(SIGSEGV, exit_with_9);
  const auto group = ddp::init_process_group();
  if (how == "late-handler") std::signal(SIGSEGV, exit_with_9);
  crash(how);
  return 0;
}
