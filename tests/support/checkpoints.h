// SPDX-License-Identifier: MIT
//
// Checkpoints of a small model, whose contents one number tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/checkpoint_file.h"
#include "support/files.h"

namespace ddp::test {

constexpr CheckpointName after_epoch(std::int64_t epochs) { return {.epochs = epochs, .step = {}}; }

// A model of one tensor "w" with two equal elements.
class OneTensorModel {
 public:
  explicit OneTensorModel(float value) : values_{value, value} {}

  [[nodiscard]] std::vector<NamedBuffer> tensors() { return {{"w", {2}, buffer_of(values_)}}; }
  [[nodiscard]] float value() const { return values_[0] == values_[1] ? values_[0] : -1; }

 private:
  std::vector<float> values_;
};

// Saves the number of epochs.
inline void save_epoch(CheckpointDirectory& directory, std::int64_t epochs, bool is_best = false) {
  OneTensorModel model(static_cast<float>(epochs));
  directory.save({.name = after_epoch(epochs), .metadata = {}, .is_best = is_best},
                 model.tensors());
}

inline float value_in(const std::filesystem::path& file) {
  OneTensorModel model(-1);
  restore_tensors(file, load_checkpoint(file), model.tensors());
  return model.value();
}

inline float newest_value(const std::filesystem::path& path) {
  CheckpointDirectory directory({.path = path});
  return value_in(directory.load_newest().value().path);
}

// The file's bytes, one of them with a bit changed.
inline std::string damaged(const std::filesystem::path& file, std::size_t at) {
  std::string bytes = bytes_of(file);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

}  // namespace ddp::test
