// SPDX-License-Identifier: MIT
//
//   crashing_worker HOW
//
// A worker that is ended by a signal, or not:
//   touch         it writes where it may not
//   touch-thread  likewise, a thread of its own
//   throw         nobody catches an exception
//   overflow      its stack has no end
//   raise         it sends itself a SIGSEGV
//   stuck         it touches, and whoever looks at its stack stands still
//   damaged       it aborts, and its stack cannot be read
//   own-handler   it touches, but has a handler, which exits with 9
//   late-handler  likewise; the handler comes after the process group
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

[[gnu::noinline]] int call_without_end(volatile int* depth) {
  volatile char padding[1000];
  padding[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return *depth > 0 ? call_without_end(depth) + padding[0] : 0;
}

// Far enough from main's frame to be on another page.
[[gnu::noinline]] char abort_with_damaged_stack(std::uintptr_t frame_of_main) {
  volatile char padding[3 * 4096];
  padding[0] = 0;
  void* page = reinterpret_cast<void*>(frame_of_main & ~std::uintptr_t{4095});
  ::mprotect(page, 4096, PROT_NONE);
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

// In place of the unwinder's, for libddp, which is linked into this program.
extern "C" _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn visit, void* state) {
  static const auto real =
      reinterpret_cast<decltype(&_Unwind_Backtrace)>(::dlsym(RTLD_NEXT, "_Unwind_Backtrace"));
  while (unwinder_stands_still) ::pause();
  return real(visit, state);
}

int main(int, char** argv) {
  const std::string how = argv[1];
  // A sanitizer has handlers of its own, which make an exit code of a crash.
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(signal_number, SIG_DFL);
  if (how == "own-handler") std::signal(SIGSEGV, exit_with_9);
  const auto group = ddp::init_process_group();
  if (how == "late-handler") std::signal(SIGSEGV, exit_with_9);
  crash(how);
  return 0;
}
