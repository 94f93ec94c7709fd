// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/operand_memory.h"

#include <memory>
#include <utility>

#include "ddp/base/log.h"
#include "ddp/base/system/home_process.h"

namespace ddp {

Allocation guard_operand_memory(Allocation memory, std::weak_ptr<ProcessGroup> group) {
  if (memory.data() == nullptr) return memory;
  auto owner = std::make_unique<Allocation>(std::move(memory));
  void* data = owner->data();
  const std::size_t size_bytes = owner->size_bytes();
  Allocation guarded(
      data, size_bytes,
      [owner = owner.get(), group = std::move(group), home = HomeProcess()](void*) {
        // Not freed in a forked child, where the heap may be locked for good.
        if (!home.is_here()) return;
        const std::shared_ptr<ProcessGroup> alive = group.lock();
        const Buffer all{owner->data(), owner->size_bytes(), DType::kUInt8};
        if (!alive || alive->release(all)) return delete owner;
        logging::warning("[ddp] memory that a hanging collective may still use is not freed");
      });
  static_cast<void>(owner.release());  // `guarded` has it now
  return guarded;
}

}  // namespace ddp
