// SPDX-License-Identifier: MIT
#include "launcher/placement/cpu_list.h"

#include <charconv>
#include <limits>

namespace ddp::launcher {
namespace {

constexpr std::size_t kWordBits = std::numeric_limits<unsigned long>::digits;

}  // namespace

CpuList parse_cpu_list(std::string_view text) {
  CpuList cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [stop, error] = std::from_chars(at, end, first);
    if (error != std::errc()) break;
    int last = first;
    if (stop < end && *stop == '-') stop = std::from_chars(stop + 1, end, last).ptr;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    at = stop < end ? stop + 1 : end;
  }
  return cpus;
}

std::string to_string(const CpuList& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<unsigned long> affinity_mask(const CpuList& cpus) {
  std::vector<unsigned long> words;
  for (const int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    if (words.size() <= bit / kWordBits) words.resize(bit / kWordBits + 1);
    words[bit / kWordBits] |= 1UL << (bit % kWordBits);
  }
  return words;
}

}  // namespace ddp::launcher
