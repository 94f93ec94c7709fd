// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_file.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/io/crc32.h"
#include "ddp/io/host_transfer.h"

namespace ddp {
namespace {

constexpr const char* kChecksum = "checksum";
constexpr std::string_view kWrapper = "module.";

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

std::string describe(const NamedBuffer& tensor) {
  return fmt::format("{}[{}]", to_string(tensor.buffer.dtype), fmt::join(tensor.shape, ", "));
}

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

// Finds loaded tensors by the targets' names; each can be taken once.
class TensorMatch {
 public:
  TensorMatch(const std::filesystem::path& path, const Safetensors& loaded) : path_(path) {
    for (const NamedBuffer& tensor : loaded.tensors) by_name_[tensor.name] = &tensor;
  }

  const NamedBuffer& take(const NamedBuffer& target) {
    auto found = by_name_.find(target.name);
    if (found == by_name_.end()) found = by_name_.find(std::string(kWrapper) + target.name);
    if (found == by_name_.end()) fail(target.name, "is missing");
    const NamedBuffer& tensor = *found->second;
    if (tensor.shape != target.shape || tensor.buffer.dtype != target.buffer.dtype) {
      fail(target.name,
           "is " + describe(tensor) + " in the file and " + describe(target) + " in this program");
    }
    by_name_.erase(found);
    return tensor;
  }

  void check_nothing_left() const {
    if (!by_name_.empty()) {
      fail(by_name_.begin()->first, "is in the file, but nothing in this program has that name");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& complaint) const {
    throw FileError("[checkpoint] " + path_.string() + ": tensor \"" + name + "\" " + complaint);
  }

  const std::filesystem::path& path_;
  std::unordered_map<std::string, const NamedBuffer*> by_name_;
};

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

void restore_tensors(const std::filesystem::path& path, const Safetensors& loaded,
                     std::span<const NamedBuffer> targets, Stream stream) {
  TensorMatch match(path, loaded);
  std::vector<const NamedBuffer*> sources;
  for (const NamedBuffer& target : targets) sources.push_back(&match.take(target));
  match.check_nothing_left();
  HostTransfer transfer(stream);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    transfer.copy(sources[i]->buffer, targets[i].buffer);
  }
  transfer.wait();
}

}  // namespace ddp
