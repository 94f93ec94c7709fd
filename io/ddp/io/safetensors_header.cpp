// SPDX-License-Identifier: MIT
#include "ddp/io/safetensors_header.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/printable.h"
#include "ddp/base/round_up.h"
#include "ddp/io/strict_json.h"

namespace ddp {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kMaxDepth = 3;  // header, tensor, shape

constexpr std::pair<DType, const char*> kNames[] = {
    {DType::kFloat64, "F64"},   {DType::kFloat32, "F32"}, {DType::kFloat16, "F16"},
    {DType::kBFloat16, "BF16"}, {DType::kInt64, "I64"},   {DType::kInt32, "I32"},
    {DType::kUInt8, "U8"}};

const char* name_of(DType dtype) {
  return std::find_if(std::begin(kNames), std::end(kNames),
                      [&](const auto& pair) { return pair.first == dtype; })
      ->second;
}

std::optional<DType> dtype_named(const std::string& name) {
  for (const auto& [dtype, text] : kNames) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

// The number of elements, or nothing if it exceeds 64 bits.
std::optional<std::uint64_t> product(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) return {};
  }
  return count;
}

void check_saveable(const NamedBuffer& tensor) {
  const auto refuse = [&](const std::string& complaint) {
    throw std::invalid_argument("[safetensors] tensor \"" + tensor.name + "\": " + complaint);
  };
  if (tensor.name == kMetadata) refuse("the format reserves this name");
  if (tensor.buffer.device != kCpuDevice) refuse(to_string(tensor.buffer) + ", not in CPU memory");
  const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(),
                                    [](std::int64_t size) { return size < 0; });
  if (negative || product(tensor.shape) != tensor.buffer.count) {
    refuse(fmt::format("shape [{}] does not fit {}", fmt::join(tensor.shape, ", "),
                       to_string(tensor.buffer)));
  }
}

std::string dump(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::type_error& error) {
    throw std::invalid_argument(std::string("[safetensors] a name or metadata: ") + error.what());
  }
}

std::string padded(std::string text) {
  text.resize(round_up(text.size(), kAlignment), ' ');
  return text;
}

class EntryReader {
 public:
  EntryReader(const std::string& name, const Json& value) : name_(name), value_(value) {}

  [[nodiscard]] SafetensorsEntry read() const {
    if (!value_.is_object()) fail("is not an object");
    const std::vector<std::int64_t> offsets = integers("data_offsets");
    if (offsets.size() != 2) fail("data_offsets are not two numbers");
    SafetensorsEntry entry{.name = name_,
                           .dtype = dtype(),
                           .shape = integers("shape"),
                           .begin = static_cast<std::uint64_t>(offsets[0]),
                           .end = static_cast<std::uint64_t>(offsets[1])};
    check_length(entry);
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& complaint) const {
    throw FileError("tensor " + quoted_name(name_) + ": " + complaint);
  }

  [[nodiscard]] const Json& member(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) fail(std::string("has no ") + key);
    return *found;
  }

  [[nodiscard]] DType dtype() const {
    const Json& json = member("dtype");
    if (!json.is_string()) fail("dtype is not a string");
    const auto& text = json.get_ref<const std::string&>();
    const auto result = dtype_named(text);
    if (!result) {
      fail("dtype " + quoted_name(text) +
           " is not supported: write the file again without this tensor");
    }
    return *result;
  }

  [[nodiscard]] std::vector<std::int64_t> integers(const char* key) const {
    const Json& json = member(key);
    if (!json.is_array()) fail(std::string(key) + " is not an array");
    std::vector<std::int64_t> result;
    for (const Json& element : json) {
      constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (!element.is_number_unsigned() || element.get<std::uint64_t>() > kMax) {
        fail(fmt::format("{} holds a {} that is not a count", key, element.type_name()));
      }
      result.push_back(element.get<std::int64_t>());
    }
    return result;
  }

  void check_length(const SafetensorsEntry& entry) const {
    if (entry.begin > entry.end) {
      fail(fmt::format("ends at {}, before it begins at {}", entry.end, entry.begin));
    }
    const std::uint64_t length = entry.end - entry.begin;
    const std::uint64_t element = size_of(entry.dtype);
    const auto count = product(entry.shape);
    if (!count || length % element != 0 || *count != length / element) {
      fail(fmt::format("{}[{}] does not take {} bytes", to_string(entry.dtype),
                       fmt::join(entry.shape, ", "), length));
    }
  }

  const std::string& name_;
  const Json& value_;
};

SafetensorsMetadata read_metadata(const Json& json) {
  SafetensorsMetadata metadata;
  if (!json.is_object()) throw FileError("__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      throw FileError("__metadata__: " + quoted_name(key) + " is not a string");
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

void check_coverage(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected) {
      throw FileError(fmt::format("tensor {}: begins at {} where {} was expected",
                                  quoted_name(entry.name), entry.begin, expected));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    throw FileError(fmt::format("the header describes {} bytes of data, but the file has {}",
                                expected, data_bytes));
  }
}

}  // namespace

std::string format_safetensors_header(std::span<const NamedBuffer> tensors,
                                      const SafetensorsMetadata& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadata] = metadata;
  std::set<std::string> names;
  std::size_t offset = 0;
  for (const NamedBuffer& tensor : tensors) {
    check_saveable(tensor);
    if (!names.insert(tensor.name).second) {
      throw std::invalid_argument("[safetensors] two tensors are named \"" + tensor.name + "\"");
    }
    const std::size_t end = offset + tensor.buffer.size_bytes();
    json[tensor.name] = {{"dtype", name_of(tensor.buffer.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = padded(dump(json));
  if (header.size() <= kMaxSafetensorsHeaderBytes) return header;
  throw std::invalid_argument(
      fmt::format("[safetensors] names, shapes and metadata take {} bytes, more than the {} that "
                  "readers accept",
                  header.size(), kMaxSafetensorsHeaderBytes));
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  const Json json = parse_strict_json(text, kMaxDepth);
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      header.metadata = read_metadata(value);
    } else {
      header.entries.push_back(EntryReader(name, value).read());
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_coverage(header.entries, data_bytes);
  return header;
}

}  // namespace ddp
