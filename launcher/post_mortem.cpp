// SPDX-License-Identifier: MIT
#include "launcher/post_mortem.h"

#include <sys/wait.h>

#include <csignal>

#include "launcher/error_file.h"
#include "launcher/shared_memory.h"

namespace ddp::launcher {

PostMortem::PostMortem()
    : memory_(MemorySource::of_this_process()), memory_before_(read_memory_state(memory_)) {}

Ending PostMortem::examine(const Worker& worker, const rusage& usage,
                           const std::string& error_file) const {
  const int status = worker.status();
  Ending ending{.rank = worker.rank(), .pid = worker.pid(), .status = status};
  if (!ending.is_failure()) return ending;
  ending.record = read_error_record(error_file);
  ending.out_of_memory = find_out_of_memory(status, memory_before_, read_memory_state(memory_));
  if (ending.out_of_memory) {
    ending.out_of_memory->resident_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) ending.hint = bus_error_hint();
  return ending;
}

}  // namespace ddp::launcher
