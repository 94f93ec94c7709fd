// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_file.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/io/crc32.h"

namespace ddp {
namespace {

constexpr const char* kChecksum = "checksum";

class Crc32 {
 public:
  void update(const void* data, std::size_t size_bytes) {
    value_ = crc32(value_, data, size_bytes);
  }
  // Includes the terminating zero byte.
  void update(const std::string& text) { update(text.c_str(), text.size() + 1); }
  [[nodiscard]] std::string digits() const { return fmt::format("{:08x}", value_); }

 private:
  std::uint32_t value_ = 0;
};

void verify(const Safetensors& loaded) {
  const auto stored = loaded.metadata.find(kChecksum);
  if (stored == loaded.metadata.end()) {
    throw FileError("it has no checksum, so it is not a checkpoint");
  }
  const std::string actual = checkpoint_checksum(loaded.tensors, loaded.metadata);
  if (actual != stored->second) {
    throw FileError("the content has checksum " + actual + ", but " + stored->second +
                    " was written, so it is damaged");
  }
}

}  // namespace

std::string checkpoint_checksum(std::span<const NamedBuffer> tensors,
                                const SafetensorsMetadata& metadata) {
  Crc32 crc;
  for (const auto& [key, value] : metadata) {
    if (key == kChecksum) continue;
    crc.update(key);
    crc.update(value);
  }
  std::vector<const NamedBuffer*> sorted;
  for (const NamedBuffer& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  for (const NamedBuffer* tensor : sorted) {
    crc.update(tensor->name);
    crc.update(std::string(to_string(tensor->buffer.dtype)));
    crc.update(fmt::format("{}", fmt::join(tensor->shape, ",")));
    crc.update(tensor->buffer.data, tensor->buffer.size_bytes());
  }
  return crc.digits();
}

void save_checkpoint(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                     SafetensorsMetadata metadata) {
  metadata[kChecksum] = checkpoint_checksum(tensors, metadata);
  save_safetensors(path, tensors, metadata);
}

Safetensors load_checkpoint(const std::filesystem::path& path) {
  Safetensors loaded = load_safetensors(path);
  try {
    verify(loaded);
  } catch (const FileError&) {
    std::throw_with_nested(FileError("[checkpoint] cannot load " + path.string()));
  }
  return loaded;
}

}  // namespace ddp
