// SPDX-License-Identifier: MIT
#include "launcher/verdict/post_mortem.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/processes/shared_memory.h"
#include "launcher/verdict/error_file.h"

namespace ddp::launcher {
namespace {

// Workers inherit our limit.
std::string file_size_hint() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("it wrote a file beyond the limit of {} KiB (ulimit -f)",
                     limit.rlim_cur / 1024);
}

std::string hint_about(int signal_number) {
  switch (signal_number) {
    case SIGBUS:
      return bus_error_hint();
    case SIGXFSZ:
      return file_size_hint();
    default:
      return "";
  }
}

}  // namespace

PostMortem::PostMortem(MemorySource source)
    : memory_(std::move(source)),
      look_before_last_(read_memory_state(memory_)),
      last_look_(look_before_last_) {}

void PostMortem::look() {
  look_before_last_ = std::exchange(last_look_, read_memory_state(memory_));
}

Ending PostMortem::examine(Ending ending, const rusage& usage,
                           const std::string& error_file) const {
  if (!ending.is_failure()) return ending;
  ending.record = read_error_record(error_file);
  if (ending.record) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(error_file, error);
    if (!error) ending.recorded_at = time;
  }
  ending.out_of_memory =
      find_out_of_memory(ending.status, look_before_last_, read_memory_state(memory_));
  if (ending.out_of_memory) {
    ending.out_of_memory->resident_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  }
  if (WIFSIGNALED(ending.status)) ending.hint = hint_about(WTERMSIG(ending.status));
  return ending;
}

}  // namespace ddp::launcher
