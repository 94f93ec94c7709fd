// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "ddp/io/atomic_file.h"
#include "ddp/io/safetensors.h"
#include "ddp/io/safetensors_header.h"

namespace ddp {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

void save_safetensors(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                      const SafetensorsMetadata& metadata) {
  const std::string header = format_safetensors_header(tensors, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const NamedBuffer& tensor : tensors) {
    file.write({static_cast<const std::byte*>(tensor.buffer.data), tensor.buffer.size_bytes()});
  }
  file.commit();
}

}  // namespace ddp
