// SPDX-License-Identifier: MIT
#include "ddp/data/image_mask_folder.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/image_file.h"
#include "ddp/data/require.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& complaint) {
  throw FileError("[image_mask_folder] " + path.string() + ": " + complaint);
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The files of a folder by their names without the extension; hidden files are ignored.
std::map<std::string, fs::path> files_in(const fs::path& folder,
                                         const std::vector<std::string_view>& extensions) {
  std::error_code error;
  std::map<std::string, fs::path> files;
  for (fs::directory_iterator entry(folder, error), end; entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string extension = lower_case(path.extension());
    if (path.filename().string().starts_with('.')) continue;
    if (std::ranges::find(extensions, extension) == extensions.end()) {
      fail(path, fmt::format("its name does not end in {}", fmt::join(extensions, " or ")));
    }
    const auto [found, is_new] = files.emplace(path.stem(), path);
    if (!is_new) fail(path, "has the same name as " + found->second.string());
  }
  if (error) fail(folder, "cannot be listed: " + error.message());
  return files;
}

PixelTable threshold_table(int threshold) {
  PixelTable table{};
  std::fill(table.begin() + threshold, table.end(), 1.0);
  return table;
}

}  // namespace

ImageMaskFolder::ImageMaskFolder(const fs::path& directory, ImageMaskOptions options)
    : options_(std::move(options)), image_tables_(pixel_tables(options_.normalization)) {
  const std::size_t channels = options_.normalization.size();
  require(channels == 1 || channels == 3,
          fmt::format("[image_mask_folder] {} normalizations; colour has 3, grey has 1", channels));
  require(options_.mask_threshold >= 1 && options_.mask_threshold <= 255,
          fmt::format("[image_mask_folder] mask_threshold is {}, not in [1, 255]",
                      options_.mask_threshold));
  check_transforms(options_.transforms);
  mask_table_ = {threshold_table(options_.mask_threshold)};
  find_pairs(directory);
  first_size_ = read_image_size(pairs_.front().image);
  for (const Pair& pair : pairs_) {
    check_sizes(pair, read_image_size(pair.image), read_image_size(pair.mask));
  }
  const auto [height, width] = options_.transforms.output_size(first_size_);
  input_shape_ = {static_cast<std::int64_t>(channels), height, width};
  label_shape_ = {1, height, width};
}

void ImageMaskFolder::find_pairs(const fs::path& directory) {
  const auto images = files_in(directory / "images", {".jpg", ".jpeg", ".png"});
  const auto masks = files_in(directory / "masks", {".png"});
  for (const auto& [name, image] : images) {
    const auto mask = masks.find(name);
    if (mask == masks.end()) fail(image, "has no mask masks/" + name + ".png");
    pairs_.push_back({image, mask->second});
  }
  for (const auto& [name, mask] : masks) {
    if (!images.contains(name)) fail(mask, "belongs to no image");
  }
  if (pairs_.empty()) fail(directory / "images", "holds no images");
}

void ImageMaskFolder::check_sizes(const Pair& pair, const ImageSize& image,
                                  const ImageSize& mask) const {
  if (mask != image) {
    fail(pair.mask, fmt::format("is {} (height x width), but its image is {}", to_string(mask),
                                to_string(image)));
  }
  if (!options_.transforms.crop && image != first_size_) {
    fail(pair.image,
         fmt::format("is {} (height x width), but {} is {}: with a crop, images may differ in size",
                     to_string(image), pairs_.front().image.string(), to_string(first_size_)));
  }
  const std::string complaint = misfit(options_.transforms, image);
  if (!complaint.empty()) fail(pair.image, complaint);
}

void ImageMaskFolder::read(std::int64_t index, std::int64_t epoch, const Buffer& input,
                           const Buffer& label) const {
  const Pair& pair = pairs_[static_cast<std::size_t>(index)];
  const Image image = read_image(pair.image, input_shape_[0]);
  const Image mask = read_image(pair.mask, 1);
  check_sizes(pair, image.size, mask.size);
  const Window window = window_of(options_.transforms, image.size, epoch, index);
  write_pixels(image.view(), window, image_tables_, input);
  write_pixels(mask.view(), window, mask_table_, label);
}

}  // namespace ddp
