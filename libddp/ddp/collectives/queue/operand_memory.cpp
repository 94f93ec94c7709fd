// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/operand_memory.h"

#include <unistd.h>

#include <utility>

#include "ddp/base/log.h"
#include "ddp/collectives/queue/operation_queue.h"

namespace ddp {
namespace {

// False if an operation may still be using the memory.
bool release(const Allocation& memory, const WaitReleased& wait_released, ProcessGroup& group) {
  const Buffer all{memory.data(), memory.size_bytes(), DType::kUInt8, kCpuDevice};
  if (wait_released(all, OperationQueue::kErrorGrace)) return true;
  group.abort("memory of an operand was freed while a collective used it");
  return wait_released(all, OperationQueue::kErrorGrace);
}

}  // namespace

Allocation guard_operand_memory(Allocation memory, WaitReleased wait_released,
                                std::weak_ptr<ProcessGroup> group) {
  auto owner = std::make_shared<Allocation>(std::move(memory));
  void* data = owner->data();
  const std::size_t size_bytes = owner->size_bytes();
  return {data, size_bytes,
          [owner, wait_released = std::move(wait_released), group = std::move(group),
           process = ::getpid()](void*) {
            if (process == ::getpid()) {
              const std::shared_ptr<ProcessGroup> alive = group.lock();
              if (!alive || release(*owner, wait_released, *alive)) return;
              logging::warning("[ddp] memory that a hanging collective may still use is not freed");
            }
            // Leaked on purpose, also in a forked child, where the heap may be locked for good.
            new std::shared_ptr<Allocation>(owner);
          }};
}

}  // namespace ddp
