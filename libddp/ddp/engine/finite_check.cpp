// SPDX-License-Identifier: MIT
#include "ddp/engine/finite_check.h"

#include <algorithm>
#include <cstdint>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"

namespace ddp {
namespace {

std::uint8_t* flags(HostMirror& mirror) { return static_cast<std::uint8_t*>(mirror.buffer().data); }

struct Bad {
  std::int64_t count = 0;
  std::int64_t first = 0;  // parameter
};

std::string describe(std::size_t rank, const Bad& bad, std::span<const std::string> names) {
  std::string text =
      "rank " + std::to_string(rank) + " ('" + names[static_cast<std::size_t>(bad.first)] + "'";
  if (bad.count > 1) text += " and " + std::to_string(bad.count - 1) + " more";
  return text + ")";
}

}  // namespace

FiniteCheck::FiniteCheck(ProcessGroup& group, std::size_t parameters)
    : group_(group),
      parameters_(parameters),
      scanned_(group, parameters, DType::kUInt8),
      found_(group, parameters, DType::kUInt8) {}

void FiniteCheck::begin_scan(Stream stream) { fill(scanned_.buffer(), 1, stream); }

void FiniteCheck::scan(std::size_t i, const Buffer& gradient, Stream stream) {
  is_finite(gradient, flags(scanned_) + i, stream);
}

std::optional<std::size_t> FiniteCheck::find(std::span<const Buffer> buffers, Stream stream) {
  for (std::size_t i = 0; i < buffers.size(); ++i) is_finite(buffers[i], flags(found_) + i, stream);
  found_.download(stream);
  const auto* arrived = static_cast<const std::uint8_t*>(found_.arrived());
  const auto* end = arrived + buffers.size();
  const auto* bad = std::find(arrived, end, 0);
  if (bad == end) return std::nullopt;
  return static_cast<std::size_t>(bad - arrived);
}

std::string FiniteCheck::culprits(std::span<const std::string> names, Stream stream) {
  scanned_.download(stream);
  const auto* own = static_cast<const std::uint8_t*>(scanned_.arrived());
  const auto* end = own + parameters_;
  std::vector<std::int64_t> mine = {std::count(own, end, 0), std::find(own, end, 0) - own};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(group_.world_size()));
  all_gather_on_host(group_, buffer_of(mine), buffer_of(all));
  std::string text;
  for (std::size_t rank = 0; 2 * rank < all.size(); ++rank) {
    const Bad bad{all[2 * rank], all[2 * rank + 1]};
    if (bad.count == 0) continue;
    text += (text.empty() ? "" : ", ") + describe(rank, bad, names);
  }
  return text;
}

}  // namespace ddp
