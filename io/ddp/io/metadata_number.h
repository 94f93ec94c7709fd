// SPDX-License-Identifier: MIT
//
// Numbers in a checkpoint's metadata, which are text: the epoch, the best score.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <system_error>

#include "ddp/base/error.h"
#include "ddp/io/safetensors.h"

namespace ddp {

template <class T>
concept MetadataNumber = std::floating_point<T> ||
    (std::integral<T> && !std::same_as<T, bool> && sizeof(T) > 1);

// Reads back as the same number; std::to_string would keep six decimals.
template <MetadataNumber T>
[[nodiscard]] std::string metadata_text(T number) {
  std::array<char, 64> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

// Empty if there is no such key; FileError if its value is not a T.
template <MetadataNumber T>
[[nodiscard]] std::optional<T> find_number(const SafetensorsMetadata& metadata,
                                           const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && stop == text.data() + text.size()) return value;
  throw FileError("its " + key + " is \"" + text + "\"");
}

// FileError if there is no such key, or its value is not a T.
template <MetadataNumber T>
[[nodiscard]] T number_in(const SafetensorsMetadata& metadata, const std::string& key) {
  const std::optional<T> value = find_number<T>(metadata, key);
  if (!value) throw FileError("it has no " + key + " in its metadata");
  return *value;
}

}  // namespace ddp
