// SPDX-License-Identifier: MIT
#include "ddp/data/image_transforms.h"

#include <fmt/core.h>

#include "ddp/base/random.h"
#include "ddp/data/require.h"

namespace ddp {
namespace {

constexpr std::uint64_t kTransforms = stream_of("image_transforms");

// Each choice has its own draw, so that switching one on does not change the others.
enum Choice : std::uint64_t { kTop, kLeft, kFlip };

// The random numbers of a sample in an epoch, each in [0, 1).
struct Draws {
  std::uint64_t epoch_seed;
  std::uint64_t sample;

  [[nodiscard]] double operator()(Choice choice) const {
    return random_unit(epoch_seed, choice, sample);
  }

  // Returns an integer in [0, n].
  [[nodiscard]] std::int64_t up_to(std::int64_t n, Choice choice) const {
    return static_cast<std::int64_t>((*this)(choice) * static_cast<double>(n + 1));
  }
};

// torchvision's CenterCrop rounds halves to even.
std::int64_t half(std::int64_t n) { return n / 2 + (n % 4 == 3 ? 1 : 0); }

}  // namespace

void check_transforms(const ImageTransforms& transforms) {
  const double flip = transforms.flip_probability;
  require(flip >= 0 && flip <= 1,
          fmt::format("[image_transforms] flip_probability is {}, not in [0, 1]", flip));
  if (!transforms.crop) return;
  const auto& [size, padding, position] = *transforms.crop;
  require(size.height >= 1 && size.width >= 1,
          "[image_transforms] the crop's size is " + to_string(size));
  require(padding >= 0, fmt::format("[image_transforms] the padding is {}, below 0", padding));
}

std::string misfit(const ImageTransforms& transforms, const ImageSize& image) {
  if (!transforms.crop) return "";
  const auto& [size, padding, position] = *transforms.crop;
  if (image.height + 2 * padding >= size.height && image.width + 2 * padding >= size.width) {
    return "";
  }
  return fmt::format("{} with a padding of {} is smaller than the crop of {}", to_string(image),
                     padding, to_string(size));
}

Window window_of(const ImageTransforms& transforms, const ImageSize& image, std::int64_t epoch,
                 std::int64_t sample) {
  const Draws draws{random_bits(transforms.seed, kTransforms, static_cast<std::uint64_t>(epoch)),
                    static_cast<std::uint64_t>(sample)};
  Window window{.size = image, .flipped = draws(kFlip) < transforms.flip_probability};
  if (!transforms.crop) return window;
  const auto& [size, padding, position] = *transforms.crop;
  const bool is_random = position == CropPosition::kRandom;
  const std::int64_t rows = image.height + 2 * padding - size.height;
  const std::int64_t columns = image.width + 2 * padding - size.width;
  window.size = size;
  window.top = (is_random ? draws.up_to(rows, kTop) : half(rows)) - padding;
  window.left = (is_random ? draws.up_to(columns, kLeft) : half(columns)) - padding;
  return window;
}

}  // namespace ddp
