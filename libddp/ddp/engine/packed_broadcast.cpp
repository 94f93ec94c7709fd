// SPDX-License-Identifier: MIT
#include "ddp/engine/packed_broadcast.h"

#include <algorithm>

#include "ddp/base/round_up.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

constexpr std::size_t kLargestPacked = std::size_t{64} << 10;  // bytes of a buffer
constexpr std::size_t kPack = std::size_t{1} << 20;
constexpr std::size_t kAlignment = 16;

std::size_t slot_bytes(const Buffer& value) { return round_up(value.size_bytes(), kAlignment); }

}  // namespace

PackedBroadcast::PackedBroadcast(ProcessGroup& group, std::span<const Buffer> values)
    : group_(group) {
  std::size_t size_bytes = 0;
  for (const Buffer& value : values) {
    if (value.count == 0) continue;  // its data may be null on some ranks only
    if (is_packed(value)) {
      packed_.push_back(value);
      size_bytes += slot_bytes(value);
    } else {
      unpacked_.push_back(value);
    }
  }
  if (size_bytes > 0) memory_ = group_.allocate(std::min(size_bytes, kPack));
}

// A buffer that the group would refuse goes to the group, so that the error is the group's.
bool PackedBroadcast::is_packed(const Buffer& value) const {
  return value.size_bytes() <= kLargestPacked && value.data != nullptr &&
         value.device == group_.device();
}

// The unpacked values are the caller's, who may free them once an exception has left this.
Work PackedBroadcast::run(Stream stream) try {
  Work last;
  for (const Buffer& value : unpacked_) last = group_.broadcast(value, 0, stream);
  if (last.group != nullptr) last.wait(stream);
  std::size_t first = 0;
  std::size_t size_bytes = 0;
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    if (size_bytes + slot_bytes(packed_[i]) > kPack) {
      last = broadcast(std::span(packed_).subspan(first, i - first), size_bytes, stream);
      first = i;
      size_bytes = 0;
    }
    size_bytes += slot_bytes(packed_[i]);
  }
  if (first == packed_.size()) return last;
  return broadcast(std::span(packed_).subspan(first), size_bytes, stream);
} catch (...) {
  for (const Buffer& value : unpacked_) static_cast<void>(group_.release(value));
  throw;
}

Buffer PackedBroadcast::slot(const Buffer& value, std::size_t offset) const {
  return {static_cast<std::byte*>(memory_.data()) + offset, value.count, value.dtype, value.device};
}

Work PackedBroadcast::broadcast(std::span<const Buffer> packed, std::size_t size_bytes,
                                Stream stream) {
  const bool is_root = group_.rank() == 0;
  std::size_t offset = 0;
  for (const Buffer& value : packed) {
    if (is_root) copy(value, slot(value, offset), stream);
    offset += slot_bytes(value);
  }
  const Buffer pack{memory_.data(), size_bytes, DType::kUInt8, group_.device()};
  const Work work = group_.broadcast(pack, 0, stream);
  work.wait(stream);
  offset = 0;
  for (const Buffer& value : packed) {
    if (!is_root) copy(slot(value, offset), value, stream);
    offset += slot_bytes(value);
  }
  return work;
}

void broadcast_values(ProcessGroup& group, std::span<const Buffer> values) {
  PackedBroadcast broadcast(group, values);
  const Work last = broadcast.run({});
  if (last.group != nullptr) last.wait_host();
  if (!group.device().is_cuda()) return;
  const cu::DeviceGuard guard(group.device());
  cu::synchronize({});
}

}  // namespace ddp
