// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_file.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ddp/base/busy_with.h"
#include "ddp/base/error.h"
#include "ddp/io/crc32.h"

namespace ddp {
namespace {

constexpr const char* kChecksum = "checksum";
constexpr const char* kChecksums = "checksums";
constexpr std::size_t kDigits = 8;  // of a checksum

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

std::vector<const NamedBuffer*> sorted_by_name(std::span<const NamedBuffer> tensors) {
  std::vector<const NamedBuffer*> sorted;
  for (const NamedBuffer& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, &NamedBuffer::name);
  return sorted;
}

// The digits after the metadata, then after each of the tensors.
std::vector<std::string> checksums_on_the_way(const std::vector<const NamedBuffer*>& sorted,
                                              const SafetensorsMetadata& metadata) {
  Crc32 crc;
  for (const auto& [key, value] : metadata) {
    if (key == kChecksum || key == kChecksums) continue;
    crc.update(key);
    crc.update(value);
  }
  std::vector<std::string> values = {crc.digits()};
  for (const NamedBuffer* tensor : sorted) {
    crc.update(tensor->name);
    crc.update(std::string(to_string(tensor->buffer.dtype)));
    crc.update(fmt::format("{}", fmt::join(tensor->shape, ",")));
    crc.update(tensor->buffer.data, tensor->buffer.size_bytes());
    values.push_back(crc.digits());
  }
  return values;
}

// Where the damage begins, as far as the file tells.
std::string first_damaged_part(const std::vector<const NamedBuffer*>& sorted,
                               const std::vector<std::string>& actual, const std::string& stored) {
  if (stored.size() != actual.size() * kDigits) return "";
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (stored.compare(i * kDigits, kDigits, actual[i]) == 0) continue;
    return i == 0 ? ", first in the metadata" : ", first in tensor \"" + sorted[i - 1]->name + "\"";
  }
  return ", in its checksum";
}

bool is_hexadecimal(const std::string& text) {
  return text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Foreign files may have one of the keys, too, and one of ours may be damaged anywhere: in a key or
// in a value.
bool has_our_checksums(const Safetensors& loaded) {
  const auto are = [](const std::string& text, std::size_t checksums) {
    return text.size() == checksums * kDigits && is_hexadecimal(text);
  };
  const auto has = [&](const char* key, std::size_t checksums) {
    const auto found = loaded.metadata.find(key);
    return found != loaded.metadata.end() && are(found->second, checksums);
  };
  const std::size_t list = loaded.tensors.size() + 1;
  if (loaded.metadata.contains(kChecksum) && loaded.metadata.contains(kChecksums)) return true;
  return has(kChecksums, list) ||
         (has(kChecksum, 1) && std::ranges::any_of(loaded.metadata, [&](const auto& entry) {
            return are(entry.second, list);
          }));
}

void verify(const Safetensors& loaded) {
  const auto stored = loaded.metadata.find(kChecksum);
  if (stored == loaded.metadata.end()) {
    throw FileError("it has no checksum, so it is not a checkpoint");
  }
  const std::vector<const NamedBuffer*> sorted = sorted_by_name(loaded.tensors);
  const std::vector<std::string> actual = checksums_on_the_way(sorted, loaded.metadata);
  const auto list = loaded.metadata.find(kChecksums);
  const bool has_list = list != loaded.metadata.end();
  if (actual.back() != stored->second) {
    throw FileError("the content has checksum " + actual.back() + ", but " + stored->second +
                    " was written, so it is damaged" +
                    first_damaged_part(sorted, actual, has_list ? list->second : ""));
  }
  if (has_list && list->second != fmt::format("{}", fmt::join(actual, ""))) {
    throw FileError("the content has its checksum, but the list of checksums is damaged");
  }
}

void verify(const std::filesystem::path& path, const Safetensors& loaded) try {
  verify(loaded);
} catch (const FileError&) {
  std::throw_with_nested(FileError("[checkpoint] cannot load " + path.string()));
}

}  // namespace

std::string checkpoint_checksum(std::span<const NamedBuffer> tensors,
                                const SafetensorsMetadata& metadata) {
  return checksums_on_the_way(sorted_by_name(tensors), metadata).back();
}

void save_checkpoint(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                     SafetensorsMetadata metadata) {
  const auto values = checksums_on_the_way(sorted_by_name(tensors), metadata);
  metadata[kChecksum] = values.back();
  metadata[kChecksums] = fmt::format("{}", fmt::join(values, ""));
  save_safetensors(path, tensors, metadata);
}

Safetensors load_checkpoint(const std::filesystem::path& path) {
  const BusyWith busy("loading " + path.string());
  Safetensors loaded = load_safetensors(path);
  verify(path, loaded);
  return loaded;
}

Safetensors load_weights(const std::filesystem::path& path) {
  Safetensors loaded = load_safetensors(path);
  if (has_our_checksums(loaded)) verify(path, loaded);
  return loaded;
}

}  // namespace ddp
