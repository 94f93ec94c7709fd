// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/same_data_check.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_state.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxElements = 4096;  // enough to tell samples apart

}  // namespace

SameDataCheck::SameDataCheck(ProcessGroup& group)
    : names_(group.state().names), fingerprint_(group, 1, DType::kInt64) {}

void SameDataCheck::take(const Buffer& bucket, Stream stream) {
  const Buffer part = bucket.slice(0, std::min(bucket.count, kMaxElements));
  if (!of_zeros_) {
    std::vector<std::byte> zeros(part.size_bytes());
    cpu::fingerprint({zeros.data(), part.count, part.dtype, kCpuDevice}, &of_zeros_.emplace());
  }
  ddp::fingerprint(part, static_cast<std::uint64_t*>(fingerprint_.buffer().data), stream);
  fingerprint_.download(stream);
  is_pending_ = true;
}

std::uint64_t SameDataCheck::fingerprint() {
  if (std::exchange(is_pending_, false)) {
    const std::uint64_t own = *static_cast<const std::uint64_t*>(fingerprint_.arrived());
    own_ = std::rotl(own_, 1) ^ (own == of_zeros_ ? 0 : own);
    ++taken_;
  }
  return taken_ == kSteps ? own_ : 0;
}

std::string SameDataCheck::warning(const ControlLedger& arrived) {
  if (arrived.steps() <= kSteps || std::exchange(is_over_, true)) return "";
  const std::span<const std::uint64_t> prints = arrived.gradient_fingerprints();
  for (std::size_t first = 0; first < prints.size(); ++first) {
    std::vector<int> ranks;
    for (std::size_t rank = first; rank < prints.size(); ++rank) {
      if (prints[rank] != 0 && prints[rank] == prints[first]) {
        ranks.push_back(static_cast<int>(rank));
      }
    }
    if (ranks.size() < 2) continue;
    return "[ddp] " + names_.ranks(ranks) +
           " had exactly the same gradients in the first two steps: do they read the same samples? "
           "A "
           "sampler needs to be told the rank and the number of ranks";
  }
  return "";
}

}  // namespace ddp
