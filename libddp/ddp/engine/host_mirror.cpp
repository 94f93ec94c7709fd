// SPDX-License-Identifier: MIT
#include "ddp/engine/host_mirror.h"

namespace ddp {

HostMirror::HostMirror(ProcessGroup& group, std::size_t count, DType dtype)
    : memory_(group.allocate(count * size_of(dtype))),
      buffer_{memory_.data(), count, dtype, group.device()} {
  if (!group.device().is_cuda()) return;
  const cu::DeviceGuard guard(group.device());
  pinned_ = cu::allocate_pinned(buffer_.size_bytes());
  uploaded_ = cu::Event(group.device());
  downloaded_ = cu::Event(group.device());
}

void* HostMirror::outgoing() {
  if (pinned_.data() == nullptr) return buffer_.data;
  uploaded_.synchronize();
  downloaded_.synchronize();
  return pinned_.data();
}

const void* HostMirror::arrived() {
  if (pinned_.data() == nullptr) return buffer_.data;
  downloaded_.synchronize();
  return pinned_.data();
}

void HostMirror::upload(Stream stream) {
  if (pinned_.data() == nullptr) return;
  const cu::DeviceGuard guard(buffer_.device);
  cu::copy_async(buffer_.data, pinned_.data(), buffer_.size_bytes(), stream);
  uploaded_.record(stream);
}

void HostMirror::download(Stream stream) {
  if (pinned_.data() == nullptr) return;
  const cu::DeviceGuard guard(buffer_.device);
  downloaded_.make_wait(stream);  // keeps an older download from overwriting this one
  cu::copy_async(pinned_.data(), buffer_.data, buffer_.size_bytes(), stream);
  downloaded_.record(stream);
}

void HostMirror::make_wait(Stream stream) const {
  if (pinned_.data() != nullptr) downloaded_.make_wait(stream);
}

}  // namespace ddp
