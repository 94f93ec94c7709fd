// SPDX-License-Identifier: MIT
#include "ddp/data/text_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ddp/base/random.h"
#include "ddp/data/input_file.h"

namespace ddp {
namespace {

constexpr std::uint64_t kShift = stream_of("text_dataset");

// The last token of the last sample has a token after it, and with shifts that holds wherever the
// first sample begins.
std::int64_t whole_samples(std::size_t tokens, const TextOptions& options) {
  if (options.context < 1) {
    throw std::invalid_argument(
        fmt::format("[text_dataset] the context is {}, below 1", options.context));
  }
  const std::int64_t reserved = options.shift_seed ? options.context : 1;
  const std::int64_t samples = (static_cast<std::int64_t>(tokens) - reserved) / options.context;
  if (samples >= 1) return samples;
  throw std::invalid_argument(
      fmt::format("[text_dataset] a text of {} bytes is too short: a sample has {} and needs {} "
                  "more",
                  tokens, options.context, reserved));
}

}  // namespace

TextDataset::TextDataset(std::vector<std::uint8_t> text, const TextOptions& options)
    : text_(std::move(text)),
      options_(options),
      shape_{options.context},
      size_(whole_samples(text_.size(), options)) {}

std::int64_t TextDataset::shift(std::int64_t epoch) const {
  if (!options_.shift_seed) return 0;
  const double draw = random_unit(*options_.shift_seed, kShift, static_cast<std::uint64_t>(epoch));
  return static_cast<std::int64_t>(draw * static_cast<double>(options_.context));
}

void TextDataset::read(std::int64_t index, std::int64_t epoch, const Buffer& input,
                       const Buffer& label) const {
  const std::uint8_t* tokens = text_.data() + shift(epoch) + index * options_.context;
  std::copy_n(tokens, options_.context, input.as<std::int64_t>().begin());
  std::copy_n(tokens + 1, options_.context, label.as<std::int64_t>().begin());
}

std::vector<std::uint8_t> read_text(const std::filesystem::path& path) {
  const std::unique_ptr<InputFile> file = open_input_file(plain_or_gzipped(path));
  std::vector<std::uint8_t> text;
  constexpr std::size_t kPiece = 1 << 20;
  for (std::size_t got = kPiece; got == kPiece;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    got = file->read(std::span(text).subspan(before));
    text.resize(before + got);
  }
  return text;
}

}  // namespace ddp
