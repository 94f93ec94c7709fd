// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "ddp/data/dataset.h"

namespace ddp {

inline constexpr int kByteTokens = 256;

struct TextOptions {
  std::int64_t context = 128;  // tokens of a sample
  // If given, each epoch cuts the text elsewhere, at a distance below `context` that is drawn from
  // this seed. Otherwise a model never sees what connects the end of one sample to the next.
  std::optional<std::uint64_t> shift_seed = {};
};

// A text in memory for a language model, with each byte as a token (UTF-8 as it stands). Sample i
// is the i-th `context` tokens; its label is, for each of them, the token that follows. Both are
// int64, so a DataLoader of it needs .dtype = DType::kInt64. What does not fill a sample at the end
// is left out.
class TextDataset final : public Dataset {
 public:
  // std::invalid_argument if the context is not positive or the text has no whole sample.
  explicit TextDataset(std::vector<std::uint8_t> text, const TextOptions& options = {});

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return shape_; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return shape_; }
  [[nodiscard]] DType label_dtype(DType) const override { return DType::kInt64; }
  void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
            const Buffer& label) const override;

 private:
  // Tokens before the first sample of an epoch.
  [[nodiscard]] std::int64_t shift(std::int64_t epoch) const;

  std::vector<std::uint8_t> text_;
  TextOptions options_;
  std::array<std::int64_t, 1> shape_;
  std::int64_t size_;
};

// The bytes of a file, or of `path`.gz if only that exists, unpacked if it is gzipped. Throws
// FileError and EnvironmentError as open_input_file() does.
[[nodiscard]] std::vector<std::uint8_t> read_text(const std::filesystem::path& path);

}  // namespace ddp
