// SPDX-License-Identifier: MIT
#include "ddp/collectives/host_collectives.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "ddp/base/object_bytes.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

// A buffer on the group's device that mirrors one on the host.
class DeviceTwin {
 public:
  DeviceTwin(ProcessGroup& group, const Buffer& host)
      : memory_(cu::allocate_device(host.size_bytes(), group.device())),
        buffer_{memory_.data(), host.count, host.dtype, group.device()} {}

  [[nodiscard]] const Buffer& buffer() const { return buffer_; }

 private:
  Allocation memory_;
  Buffer buffer_;
};

void copy_bytes(const Buffer& source, const Buffer& target, Stream stream) {
  cu::copy_async(target.data, source.data, source.size_bytes(), stream);
}

// Call it after wait_host(): a copy to memory that is not pinned blocks the host inside CUDA, where
// neither a deadline nor the death of a peer is noticed.
void fetch(const Buffer& source, const Buffer& target, const cu::OwnedStream& stream) {
  copy_bytes(source, target, stream.view());
  stream.synchronize();
}

// Calls run(operand, producer), which starts a collective in place.
template <class Run>
void run_in_place(ProcessGroup& group, const Buffer& host, const Run& run) {
  if (!group.device().is_cuda()) return run(host, Stream{}).wait_host();
  const cu::DeviceGuard guard(group.device());
  const cu::OwnedStream stream(group.device());
  const DeviceTwin twin(group, host);
  copy_bytes(host, twin.buffer(), stream.view());
  run(twin.buffer(), stream.view()).wait_host();
  fetch(twin.buffer(), host, stream);
}

Buffer bytes_of_text(std::string& text) { return bytes_of(std::span(text)); }

}  // namespace

void all_reduce_on_host(ProcessGroup& group, std::span<double> values, ReduceOp op) {
  run_in_place(group, buffer_of(values), [&](const Buffer& operand, Stream producer) {
    return group.all_reduce(operand, op, producer);
  });
}

void broadcast_on_host(ProcessGroup& group, const Buffer& buffer, int root) {
  run_in_place(group, buffer, [&](const Buffer& operand, Stream producer) {
    return group.broadcast(operand, root, producer);
  });
}

void broadcast_tensors(ProcessGroup& group, std::span<const NamedBuffer> tensors, int root,
                       Stream stream) {
  for (const NamedBuffer& tensor : tensors) {
    const Buffer& buffer = tensor.buffer;
    if (buffer.count == 0) continue;
    if (buffer.device == group.device()) {
      group.broadcast(buffer, root, stream).wait(stream);
    } else {
      broadcast_on_host(group, buffer, root);
    }
  }
}

void all_gather_on_host(ProcessGroup& group, const Buffer& input, const Buffer& output) {
  if (!group.device().is_cuda()) return group.all_gather(input, output).wait_host();
  const cu::DeviceGuard guard(group.device());
  const cu::OwnedStream stream(group.device());
  const DeviceTwin input_twin(group, input);
  const DeviceTwin output_twin(group, output);
  copy_bytes(input, input_twin.buffer(), stream.view());
  group.all_gather(input_twin.buffer(), output_twin.buffer(), stream.view()).wait_host();
  fetch(output_twin.buffer(), output, stream);
}

// Texts travel in equal pieces, as long as the longest.
std::vector<std::string> all_gather_text(ProcessGroup& group, std::string_view text) {
  const auto own_size = static_cast<std::int64_t>(text.size());
  const auto sizes = all_gather_on_host(group, std::array{own_size});
  std::vector<std::string> texts(sizes.size());
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(sizes));
  if (longest == 0) return texts;
  std::string own(text);
  own.resize(longest);
  std::string all(longest * sizes.size(), '\0');
  all_gather_on_host(group, bytes_of_text(own), bytes_of_text(all));
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    texts[rank] = all.substr(rank * longest, static_cast<std::size_t>(sizes[rank]));
  }
  return texts;
}

std::string broadcast_text(ProcessGroup& group, std::string text, int root) {
  auto size = static_cast<std::int64_t>(text.size());
  broadcast_on_host(group, buffer_of(std::span(&size, 1)), root);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) broadcast_on_host(group, bytes_of_text(text), root);
  return text;
}

}  // namespace ddp
