// SPDX-License-Identifier: MIT
#include "launcher/placement/gpu_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// Every GPU and MIG instance by its UUID.
std::vector<ListedGpu> all_uuids(const GpuInventory& inventory) {
  std::vector<ListedGpu> all;
  for (std::size_t index = 0; index < inventory.gpus.size(); ++index) {
    all.push_back({inventory.gpus[index].uuid, index});
    for (const std::string& instance : inventory.gpus[index].mig) all.push_back({instance, index});
  }
  return all;
}

// Returns nothing if no UUID, or more than one, begins like this.
std::optional<ListedGpu> find_uuid(const GpuInventory& inventory, std::string_view beginning) {
  std::vector<ListedGpu> found;
  for (const ListedGpu& each : all_uuids(inventory)) {
    if (each.name == beginning) return each;
    if (each.name.starts_with(beginning)) found.push_back(each);
  }
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

// CUDA ignores what follows a number.
std::optional<ListedGpu> find_index(const GpuInventory& inventory, std::string_view entry) {
  std::size_t index = 0;
  const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error != std::errc() || index >= inventory.gpus.size()) return std::nullopt;
  return ListedGpu{std::to_string(index), index};
}

bool is_uuid(std::string_view entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

std::optional<ListedGpu> find(const GpuInventory& inventory, std::string_view entry) {
  return is_uuid(entry) ? find_uuid(inventory, entry) : find_index(inventory, entry);
}

bool are_same(const ListedGpu& a, const ListedGpu& b) {
  return a.is_mig() || b.is_mig() ? a.name == b.name : a.index == b.index;
}

bool contains(const std::vector<ListedGpu>& list, const ListedGpu& gpu) {
  return std::ranges::any_of(list, [&gpu](const ListedGpu& each) { return are_same(each, gpu); });
}

}  // namespace

std::vector<ListedGpu> visible_gpus(const GpuInventory& inventory,
                                    const std::optional<std::string>& cuda_visible_devices) {
  std::vector<ListedGpu> list;
  if (!cuda_visible_devices) {
    for (std::size_t index = 0; index < inventory.gpus.size(); ++index) {
      list.push_back({std::to_string(index), index});
    }
    return list;
  }
  if (inventory.gpus.empty()) return {};
  for (const std::string_view entry : split_at_commas(*cuda_visible_devices)) {
    std::optional<ListedGpu> gpu = find(inventory, entry);
    if (!gpu && entry.starts_with("MIG-")) gpu = ListedGpu{std::string(entry), std::nullopt};
    if (!gpu) break;
    if (contains(list, *gpu)) return {};
    list.push_back(*gpu);
  }
  return list;
}

std::vector<ListedGpu> chosen_gpus(const GpuInventory& inventory,
                                   const std::vector<std::string>& entries) {
  std::vector<ListedGpu> list;
  for (const std::string& entry : entries) {
    const std::optional<ListedGpu> gpu = find(inventory, entry);
    if (!gpu || contains(list, *gpu)) {
      throw LaunchError(fmt::format("--gpus: {} {}; this host has {}", entry,
                                    gpu ? "is named twice" : "does not name a GPU",
                                    describe_gpus(inventory)));
    }
    list.push_back(*gpu);
  }
  return list;
}

std::string cuda_list(const GpuInventory& inventory, const std::vector<ListedGpu>& gpus) {
  const bool by_uuid =
      std::ranges::any_of(gpus, [](const ListedGpu& g) { return is_uuid(g.name); });
  std::string text;
  for (const ListedGpu& gpu : gpus) {
    const bool stays = !by_uuid || is_uuid(gpu.name);
    text += (text.empty() ? "" : ",") + (stays ? gpu.name : inventory.gpus[*gpu.index].uuid);
  }
  return text;
}

std::vector<std::optional<ListedGpu>> deal_gpus(const std::vector<ListedGpu>& list, int workers,
                                                bool may_share) {
  std::vector<std::optional<ListedGpu>> dealt(static_cast<std::size_t>(workers));
  for (std::size_t rank = 0; rank < dealt.size(); ++rank) {
    const bool has_own = rank < list.size();
    if (!list.empty() && (has_own || may_share)) dealt[rank] = list[rank % list.size()];
  }
  return dealt;
}

}  // namespace ddp::launcher
