// SPDX-License-Identifier: MIT
//
// Draws a small SYNTHETIC set of cracked concrete for segmentation: grey noise with one or two
// random walks in it. It serves to show and test the way from files to batches; how well a model
// does on it says nothing about real cracks.
//   build/bin/make_crack_set --out DIR --count 64 --size 128 --seed 0
// Image i depends only on (seed, i) and the size. ddp::ImageMaskFolder reads DIR/images and
// DIR/masks.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cxxopts.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/random.h"
#include "ddp/data/image_file.h"
#include "tool.h"
#include "tool_flags.h"

namespace {

constexpr const char* kLabel =
    "SYNTHETIC: drawn by make_crack_set of libddp, no photographs of anything.\n";

// The random draws of one image, in order.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t image) : seed_(seed), image_(image) {}

  double between(double low, double high) {
    return low + (high - low) * ddp::random_unit(seed_, image_, next_++);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t image_;
  std::uint64_t next_ = 0;
};

struct Sample {
  ddp::Image image;
  ddp::Image mask;
};

ddp::Image blank(std::int64_t side, std::int64_t channels) {
  return {.size = {side, side},
          .channels = channels,
          .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(side * side * channels))};
}

std::uint8_t to_pixel(double value) {
  return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

// Concrete: a grey that brightens along one direction, with grain.
void draw_ground(ddp::Image& image, Random& random) {
  const double base = random.between(120, 190);
  const double right = random.between(-30, 30);
  const double down = random.between(-30, 30);
  const auto side = static_cast<double>(image.size.width);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    const auto pixel = static_cast<double>(i / 3);
    const double shade = base + right * std::fmod(pixel, side) / side +
                         down * std::floor(pixel / side) / side + random.between(-12, 12);
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[i + c] = to_pixel(shade - 3.0 * static_cast<double>(c));
    }
  }
}

// A dark disc in the image, and a white one in the mask.
void draw_dot(Sample& sample, double x, double y, double radius, double darkness) {
  const std::int64_t side = sample.mask.size.width;
  const auto reach = static_cast<std::int64_t>(std::ceil(radius));
  for (std::int64_t row = std::lround(y) - reach; row <= std::lround(y) + reach; ++row) {
    for (std::int64_t column = std::lround(x) - reach; column <= std::lround(x) + reach; ++column) {
      const bool inside = row >= 0 && row < side && column >= 0 && column < side;
      const double distance =
          std::hypot(static_cast<double>(column) - x, static_cast<double>(row) - y);
      if (!inside || distance > radius) continue;
      const auto pixel = static_cast<std::size_t>(row * side + column);
      if (sample.mask.pixels[pixel] != 0) continue;
      sample.mask.pixels[pixel] = 255;
      for (std::size_t i = 3 * pixel; i < 3 * pixel + 3; ++i) {
        sample.image.pixels[i] = to_pixel(sample.image.pixels[i] * darkness);
      }
    }
  }
}

// A walk from edge to edge that turns a little at each step.
void draw_crack(Sample& sample, Random& random) {
  const auto side = static_cast<double>(sample.mask.size.width);
  double angle = random.between(-0.6, 0.6);
  double x = 0;
  double y = random.between(0.2, 0.8) * side;
  const bool is_upright = random.between(0, 1) < 0.5;
  const double darkness = random.between(0.25, 0.55);
  double radius = random.between(0.7, 0.02 * side + 0.7);
  while (x >= 0 && x < side && y >= 0 && y < side) {
    draw_dot(sample, is_upright ? y : x, is_upright ? x : y, radius, darkness);
    angle = std::clamp(angle + random.between(-0.35, 0.35), -1.2, 1.2);
    radius = std::clamp(radius + random.between(-0.15, 0.15), 0.6, 0.03 * side + 0.6);
    x += std::cos(angle);
    y += std::sin(angle);
  }
}

Sample draw(std::uint64_t seed, std::uint64_t index, std::int64_t side) {
  Random random(seed, index);
  Sample sample{blank(side, 3), blank(side, 1)};
  draw_ground(sample.image, random);
  const int cracks = random.between(0, 1) < 0.3 ? 2 : 1;
  for (int i = 0; i < cracks; ++i) draw_crack(sample, random);
  return sample;
}

// A set with other images in it would be neither this one nor the other.
void check_is_new(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder) || std::filesystem::is_empty(folder)) return;
  throw std::invalid_argument(folder.string() +
                              " already has files: remove them, or choose another --out");
}

void make_set(const std::filesystem::path& out, std::uint64_t count, std::int64_t side,
              std::uint64_t seed) {
  check_is_new(out / "images");
  check_is_new(out / "masks");
  std::filesystem::create_directories(out / "images");
  std::filesystem::create_directories(out / "masks");
  std::ofstream label(out / "SYNTHETIC.txt");
  label << kLabel << std::flush;
  if (!label) throw ddp::FileError((out / "SYNTHETIC.txt").string() + ": cannot be written");
  for (std::uint64_t i = 0; i < count; ++i) {
    char name[40];
    std::snprintf(name, sizeof(name), "synthetic_%06llu.png", static_cast<unsigned long long>(i));
    const Sample sample = draw(seed, i, side);
    write_png(out / "images" / name, sample.image);
    write_png(out / "masks" / name, sample.mask);
  }
  std::printf("%s%llu images of %lld x %lld with masks in %s\n", kLabel,
              static_cast<unsigned long long>(count), static_cast<long long>(side),
              static_cast<long long>(side), out.c_str());
}

int run(int argc, char** argv) {
  cxxopts::Options flags("make_crack_set", "Draws a SYNTHETIC set of cracks with masks");
  auto add = flags.add_options();
  add("out", "directory to write to", cxxopts::value<std::string>(), "DIR");
  add("count", "images", cxxopts::value<std::string>()->default_value("64"), "N");
  add("size", "height and width", cxxopts::value<std::string>()->default_value("128"), "N");
  add("seed", "seed of everything that is random",
      cxxopts::value<std::string>()->default_value("0"), "N");
  add("h,help", "show this text");
  const auto parsed = parse_flags(flags, argc, argv, {"out"});
  if (!parsed) return 0;
  const auto count = number_flag<std::uint64_t>(*parsed, "count");
  const auto side = number_flag<std::int64_t>(*parsed, "size");
  const auto seed = number_flag<std::uint64_t>(*parsed, "seed");
  if (count < 1) throw std::invalid_argument("--count must be at least 1");
  if (side < 8 || side > 4096) throw std::invalid_argument("--size must be between 8 and 4096");
  make_set((*parsed)["out"].as<std::string>(), count, side, seed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // what exceeds `ulimit -f` is an error, as on a full disk
  return run_tool("make_crack_set", [&] { return run(argc, argv); });
}
