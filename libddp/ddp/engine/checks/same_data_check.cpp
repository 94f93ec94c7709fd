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

constexpr std::size_t kMaxElements = 4096;  // of a bucket; enough to tell samples apart

}  // namespace

SameDataCheck::SameDataCheck(ProcessGroup& group, const Reducer& reducer)
    : reducer_(reducer),
      names_(group.state().names),
      fingerprints_(group, reducer.layout().buckets.size(), DType::kInt64) {
  std::vector<double> zeros(kMaxElements);  // whatever the dtype
  for (std::size_t b = 0; b < reducer.layout().buckets.size(); ++b) {
    const Buffer part = compared_part(b);
    cpu::fingerprint({zeros.data(), part.count, part.dtype, kCpuDevice}, &of_zeros_.emplace_back());
  }
}

// Without a tail, which holds marks of the last step.
Buffer SameDataCheck::compared_part(std::size_t b) const {
  const Buffer bucket = reducer_.bucket(b);
  const bool is_last = b + 1 == reducer_.layout().buckets.size();
  const std::size_t count = bucket.count - (is_last ? reducer_.tail().count : 0);
  return bucket.slice(0, std::min(count, kMaxElements));
}

void SameDataCheck::take(std::size_t b, Stream stream) {
  auto* fingerprints = static_cast<std::uint64_t*>(fingerprints_.buffer().data);
  ddp::fingerprint(compared_part(b), fingerprints + b, stream);
  is_taken_ = true;
}

void SameDataCheck::end_step(Stream stream) {
  if (!std::exchange(is_taken_, false)) return;
  fingerprints_.download(stream);
  is_pending_ = true;
}

std::uint64_t SameDataCheck::fingerprint() {
  if (std::exchange(is_pending_, false)) {
    const auto* arrived = static_cast<const std::uint64_t*>(fingerprints_.arrived());
    for (std::size_t b = 0; b < of_zeros_.size(); ++b) {
      own_ = std::rotl(own_, 1) ^ (arrived[b] == of_zeros_[b] ? 0 : arrived[b]);
    }
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
           "A sampler needs to be told the rank and the number of ranks";
  }
  return "";
}

}  // namespace ddp
