// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/operand_memory.h"

#include <unistd.h>

#include <utility>

#include "ddp/base/log.h"
#include "ddp/collectives/queue/operation_queue.h"

namespace ddp {
namespace {

// False if an operation may still be running.
bool come_to_rest(const WaitIdle& wait_idle, ProcessGroup& group) {
  if (wait_idle(OperationQueue::kErrorGrace)) return true;
  group.abort("memory of an operand was freed while a collective used it");
  return wait_idle(OperationQueue::kErrorGrace);
}

}  // namespace

Allocation guard_operand_memory(Allocation memory, WaitIdle wait_idle,
                                std::weak_ptr<ProcessGroup> group) {
  auto owner = std::make_shared<Allocation>(std::move(memory));
  void* data = owner->data();
  const std::size_t size_bytes = owner->size_bytes();
  return {data, size_bytes,
          [owner, wait_idle = std::move(wait_idle), group = std::move(group),
           process = ::getpid()](void*) {
            if (process == ::getpid()) {
              const std::shared_ptr<ProcessGroup> alive = group.lock();
              if (!alive || come_to_rest(wait_idle, *alive)) return;
              logging::warning("[ddp] memory that a hanging collective may still use is not freed");
            }
            // Leaked on purpose, also in a forked child, where the heap may be locked for good.
            new std::shared_ptr<Allocation>(owner);
          }};
}

}  // namespace ddp
