// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_stage.h"

#include <exception>

#include "ddp/base/round_up.h"

namespace ddp::shm {

std::optional<Buffer> Stage::take(std::uint64_t collective, const Buffer& like) {
  const std::lock_guard lock(mutex_);
  if (like.size_bytes() > kMaxOperandBytes || !has_memory()) return std::nullopt;
  if (begin_ == end_) begin_ = end_ = round_up(end_, kBytes);  // nothing is in use: start again
  const std::uint64_t size = round_up(like.size_bytes(), kHostAlignment);
  const bool fits = end_ % kBytes + size <= kBytes;
  const std::uint64_t begin = fits ? end_ : round_up(end_, kBytes);
  if (begin + size - begin_ > kBytes) return std::nullopt;
  end_ = begin + size;
  Buffer copy = like;
  copy.data = static_cast<std::byte*>(memory_->data()) + begin % kBytes;
  loan(collective) = {.collective = collective, .end = end_, .copy = copy};
  return copy;
}

std::optional<Buffer> Stage::find(std::uint64_t collective) const {
  const std::lock_guard lock(mutex_);
  const Loan& found = loan(collective);
  return found.collective == collective ? std::optional(found.copy) : std::nullopt;
}

void Stage::give_back(std::uint64_t collective) {
  const std::lock_guard lock(mutex_);
  Loan& own = loan(collective);
  if (own.collective != collective) return;
  begin_ = own.end;
  own.collective = 0;
}

bool Stage::is_in_use() const {
  const std::lock_guard lock(mutex_);
  return begin_ != end_;
}

bool Stage::has_memory() {
  if (memory_ || is_memory_short_) return memory_.has_value();
  try {
    memory_ = heap_.allocate(kBytes);
  } catch (const std::exception&) {
    is_memory_short_ = true;  // operands are handled like large ones
  }
  return memory_.has_value();
}

}  // namespace ddp::shm
