// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/operand_memory.h"

#include <unistd.h>

#include <utility>

#include "ddp/base/log.h"

namespace ddp {

Allocation guard_operand_memory(Allocation memory, std::weak_ptr<ProcessGroup> group) {
  auto owner = std::make_shared<Allocation>(std::move(memory));
  void* data = owner->data();
  const std::size_t size_bytes = owner->size_bytes();
  return {data, size_bytes, [owner, group = std::move(group), process = ::getpid()](void*) {
            if (process == ::getpid()) {
              const std::shared_ptr<ProcessGroup> alive = group.lock();
              const Buffer all{owner->data(), owner->size_bytes(), DType::kUInt8, kCpuDevice};
              if (!alive || alive->release(all)) return;
              logging::warning("[ddp] memory that a hanging collective may still use is not freed");
            }
            // Leaked on purpose, also in a forked child, where the heap may be locked for good.
            new std::shared_ptr<Allocation>(owner);
          }};
}

}  // namespace ddp
