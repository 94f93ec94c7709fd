// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cstddef>
#include <exception>

#include "ddp/base/error.h"
#include "ddp/io/atomic_file.h"
#include "ddp/io/safetensors.h"
#include "ddp/io/safetensors_header.h"

namespace ddp {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

void write_data(AtomicFile& file, const NamedBuffer& tensor) {
  try {
    file.write({static_cast<const std::byte*>(tensor.buffer.data), tensor.buffer.size_bytes()});
  } catch (const FileError&) {
    std::throw_with_nested(FileError("[safetensors] tensor \"" + tensor.name + "\" is not saved"));
  }
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                      const SafetensorsMetadata& metadata) {
  const std::string header = format_safetensors_header(tensors, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const NamedBuffer& tensor : tensors) write_data(file, tensor);
  file.commit();
}

}  // namespace ddp
