// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/system/regular_file.h"
#include "ddp/io/safetensors.h"
#include "ddp/io/safetensors_header.h"

namespace ddp {
namespace {

void read_exactly(RegularFile& file, void* destination, std::size_t size_bytes) {
  if (file.read(destination, size_bytes) == size_bytes) return;
  throw FileError("it became shorter while it was read");
}

// The first bytes of files of torch.save: a zip archive or, before PyTorch 1.6, a pickle.
bool is_of_pytorch(std::uint64_t first_bytes) {
  return (first_bytes & 0xffffffff) == 0x04034b50 || (first_bytes & 0xffff) == 0x0280;
}

[[noreturn]] void refuse_length(std::uint64_t length, std::uint64_t rest) {
  if (is_of_pytorch(length)) {
    throw FileError(
        "it is not a safetensors file, but one of torch.save; to convert it, run in Python: "
        "safetensors.torch.save_file(torch.load(FILE, map_location=\"cpu\"), "
        "\"model.safetensors\"), where FILE is its name; it must hold only a state_dict()");
  }
  throw FileError(fmt::format(
      "it is cut short or not a safetensors file: it announces a header of {} bytes, but {} follow "
      "and {} are allowed",
      length, rest, kMaxSafetensorsHeaderBytes));
}

SafetensorsHeader read_header(RegularFile& file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    throw FileError(fmt::format("it has {} bytes, too few for a header", file.size()));
  }
  read_exactly(file, &length, sizeof(length));
  const std::uint64_t rest = file.size() - sizeof(length);
  if (length > std::min(rest, kMaxSafetensorsHeaderBytes)) {
    refuse_length(length, rest);
  }
  std::string text(length, '\0');
  read_exactly(file, text.data(), text.size());
  return parse_safetensors_header(text, rest - length);
}

Allocation allocate(std::size_t size_bytes) {
  try {
    return allocate_host(size_bytes);
  } catch (const std::bad_alloc&) {
    throw SystemError(fmt::format("cannot allocate {} bytes of memory", size_bytes), ENOMEM);
  }
}

// Offsets ascend, so the file is read from front to back.
Safetensors read_tensors(RegularFile& file, SafetensorsHeader header) {
  std::size_t total_bytes = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    total_bytes += host_aligned(entry.end - entry.begin);
  }
  Safetensors result{
      .tensors = {}, .metadata = std::move(header.metadata), .memory = allocate(total_bytes)};
  auto* memory = static_cast<std::byte*>(result.memory.data());
  for (SafetensorsEntry& entry : header.entries) {
    const std::size_t size_bytes = entry.end - entry.begin;
    const Buffer buffer{memory, size_bytes / size_of(entry.dtype), entry.dtype, kCpuDevice};
    read_exactly(file, buffer.data, size_bytes);
    result.tensors.push_back({std::move(entry.name), std::move(entry.shape), buffer});
    memory += host_aligned(size_bytes);
  }
  return result;
}

}  // namespace

Safetensors load_safetensors(const std::filesystem::path& path) try {
  RegularFile file(path);
  return read_tensors(file, read_header(file));
} catch (const std::exception&) {
  std::throw_with_nested(FileError("[safetensors] cannot load " + path.string()));
}

SafetensorsMetadata load_safetensors_metadata(const std::filesystem::path& path) try {
  RegularFile file(path);
  return read_header(file).metadata;
} catch (const std::exception&) {
  std::throw_with_nested(FileError("[safetensors] cannot load " + path.string()));
}

}  // namespace ddp
