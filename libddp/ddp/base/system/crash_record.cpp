// SPDX-License-Identifier: MIT
//
// Everything that record_crashes() installs runs in a signal handler: it does not allocate or lock,
// and calls only async-signal-safe functions. The one exception is _Unwind_Backtrace, which reads
// tables that the crash may have destroyed; if it crashes or hangs, die_now() ends the process.
#include "ddp/base/system/crash_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ddp/base/system/write_all.h"

namespace ddp {
namespace {

constexpr std::array kCrashSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kStackBytes = 256 * 1024;
constexpr int kMostFrames = 64;
constexpr unsigned kPatienceSeconds = 2;

// A handler can only use globals. These are written once, before a handler is installed.
char record_path[PATH_MAX];
pid_t recording_process = 0;

// The first thread that crashes writes these.
std::atomic<pid_t> crashed_thread{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);
int first_signal = 0;
siginfo_t first_info;

void copy_mappings(int file) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char part[4096];
  ssize_t size = 0;
  while ((size = ::read(maps, part, sizeof(part))) > 0) {
    if (write_all(file, {part, static_cast<std::size_t>(size)}) != 0) break;
  }
  ::close(maps);
}

void write_frame(int file, std::string_view kind, std::uintptr_t address) {
  char line[40];
  char* end = line + sizeof(line);
  char* at = end;
  *--at = '\n';
  do {
    *--at = "0123456789abcdef"[address % 16];
    address /= 16;
  } while (address != 0);
  at -= kind.size();
  std::memcpy(at, kind.data(), kind.size());
  static_cast<void>(write_all(file, {at, static_cast<std::size_t>(end - at)}));
}

struct FrameWriter {
  int file;
  int count = 0;
};

// The frames of the handler come first. In the interrupted frame the address is that of an
// instruction, not a return address as in the others.
_Unwind_Reason_Code write_next_frame(_Unwind_Context* context, void* state) {
  FrameWriter& writer = *static_cast<FrameWriter*>(state);
  int is_interrupted = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(context, &is_interrupted);
  if (writer.count == 0 && is_interrupted == 0) return _URC_NO_REASON;
  write_frame(writer.file, is_interrupted != 0 ? "at " : "call ", address);
  return ++writer.count < kMostFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void write_record() {
  const int file = ::open(record_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  copy_mappings(file);
  static_cast<void>(write_all(file, "\n"));
  FrameWriter writer{.file = file};
  _Unwind_Backtrace(write_next_frame, &writer);
  ::close(file);
}

void restore_default(int signal_number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal_number, &action, nullptr);
}

// Raises the first signal again, as the kernel sent it, so that a core dump shows the same signal.
// It is blocked while its handler runs, so it ends the process when the handler returns.
void repeat_first_signal() {
  restore_default(first_signal);
  const long sent = ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid),
                              first_signal, &first_info);
  if (sent != 0) ::raise(first_signal);
}

void set_blocked(int how, int signal_number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  ::pthread_sigmask(how, &set, nullptr);
}

void die_now() {
  repeat_first_signal();
  set_blocked(SIG_UNBLOCK, first_signal);
}

void on_alarm(int) { die_now(); }

// Unblocks the crash signals: a crash by a blocked signal would end the process by that signal, not
// by the first one.
void be_ready_for_crashes() {
  for (const int signal_number : kCrashSignals) {
    if (signal_number != first_signal) set_blocked(SIG_UNBLOCK, signal_number);
  }
}

void limit_time() {
  struct sigaction action {};
  action.sa_handler = on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  set_blocked(SIG_UNBLOCK, SIGALRM);
  ::alarm(kPatienceSeconds);
}

void on_crash(int signal_number, siginfo_t* info, void*) {
  const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
  pid_t nobody = 0;
  if (!crashed_thread.compare_exchange_strong(nobody, thread)) {
    while (nobody != thread) ::pause();  // the other thread is about to end the process
    die_now();                           // the handler itself has crashed
  }
  first_signal = signal_number;
  first_info = *info;
  const bool is_forked_child = ::getpid() != recording_process;
  if (!is_forked_child) {
    be_ready_for_crashes();
    limit_time();
    write_record();
  }
  repeat_first_signal();
}

// Does nothing if the thread has a signal stack.
void make_signal_stack() {
  stack_t stack{};
  if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  void* memory =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = kStackBytes};
  ::sigaltstack(&stack, nullptr);
}

_Unwind_Reason_Code skip_frame(_Unwind_Context*, void*) { return _URC_NO_REASON; }

void install_handlers() {
  for (const int signal_number : kCrashSignals) {
    struct sigaction action {};
    const bool is_known = ::sigaction(signal_number, nullptr, &action) == 0;
    const bool is_default = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
    if (!is_known || !is_default) continue;
    action = {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(signal_number, &action, nullptr);
  }
}

}  // namespace

void record_crashes() noexcept {
  const char* path = std::getenv("DDP_CRASH_FILE");
  const std::size_t size = path == nullptr ? 0 : std::strlen(path);
  static std::atomic_flag was_called;
  if (size == 0 || size >= sizeof(record_path) || was_called.test_and_set()) return;
  std::memcpy(record_path, path, size + 1);
  recording_process = ::getpid();
  _Unwind_Backtrace(skip_frame, nullptr);  // loads libraries and caches now, not in the handler
  make_signal_stack();
  install_handlers();
}

}  // namespace ddp
