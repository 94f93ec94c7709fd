// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/finite_check.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

std::uint8_t* flags(HostMirror& mirror) { return static_cast<std::uint8_t*>(mirror.buffer().data); }

// The non-finite gradients of one rank.
struct Bad {
  std::int64_t count = 0;
  std::int64_t first = 0;  // index of the first such parameter
};

// "rank 5 ('wte' and 3 more)".
std::string describe_bad(const std::string& rank, const Bad& bad,
                         std::span<const Parameter> parameters) {
  std::string text = rank + " ('" + parameters[static_cast<std::size_t>(bad.first)].name + "'";
  if (bad.count > 1) text += " and " + std::to_string(bad.count - 1) + " more";
  return text + ")";
}

}  // namespace

FiniteCheck::FiniteCheck(ProcessGroup& group, const Reducer& reducer,
                         std::span<const Parameter> parameters, const DdpOptions& options)
    : group_(group),
      issuer_(reducer.issuer()),
      parameters_(parameters),
      policy_(options.non_finite),
      always_scans_(options.scan_gradients),
      scanned_(group, parameters.size(), DType::kUInt8),
      found_(group, parameters.size(), DType::kUInt8) {
  for (std::size_t b = 0; b < reducer.layout().buckets.size(); ++b) {
    buckets_.push_back(reducer.bucket(b));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) gradients_.push_back(reducer.gradient(i));
  const cu::DeviceGuard guard(group.device());
  fill(scanned_.buffer(), 1);
  if (!group.device().is_cuda()) return;
  cu::synchronize({});
  forgotten_ = cu::Event(group.device());
}

// `stream` is the one on which the last step ended, so the reset of scanned_ runs after that step's
// scans. The first step has no such stream, but also nothing to reset.
void FiniteCheck::begin_step(Stream stream) {
  if (scans_) {
    fill(scanned_.buffer(), 1, stream);
    if (group_.device().is_cuda()) forgotten_.record(stream);
  }
  scans_ = always_scans_ || !was_finite_;
}

void FiniteCheck::scan(std::size_t i, const Buffer& gradient, Stream stream) {
  if (!scans_) return;
  if (group_.device().is_cuda()) forgotten_.make_wait(stream);
  is_finite(gradient, flags(scanned_) + i, stream);
}

bool FiniteCheck::check(std::uint64_t step, Stream stream) {
  was_finite_ = !find(buckets_, stream);
  if (was_finite_) return true;
  group_.check_unbroken();  // the sums of a broken group are garbage
  if (policy_ == NonFinite::kStop) throw NonFiniteError(describe(step, stream));
  const bool names_first_ranks = scans_ && !has_named_ranks_;
  if (!std::has_single_bit(++skipped_) && !names_first_ranks) return false;
  has_named_ranks_ = has_named_ranks_ || scans_;
  const std::string text = describe(step, stream);
  if (group_.rank() == 0) {
    logging::warning(text + "; the step is skipped (" + std::to_string(skipped_) + " so far)");
  }
  return false;
}

std::string FiniteCheck::describe(std::uint64_t step, Stream stream) {
  const std::size_t first = find(gradients_, stream).value_or(0);
  const std::string text = "[ddp] step " + std::to_string(step) + ": the reduced gradient of '" +
                           parameters_[first].name + "' is not finite";
  if (!scans_) return text + " (with DdpOptions::scan_gradients, this message names the rank)";
  const std::string ranks = culprits(stream);
  if (!ranks.empty()) return text + "; it came from " + ranks;
  return text +
         "; every rank's own gradient was finite, so it overflowed on the way: by a factor, in the "
         "sum, or in a hook's narrower type";
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

// The ranks whose gradients were bad before the reduction.
std::string FiniteCheck::culprits(Stream stream) {
  scanned_.download(stream);
  const auto* own = static_cast<const std::uint8_t*>(scanned_.arrived());
  const auto* end = own + parameters_.size();
  const std::int64_t mine[] = {std::count(own, end, 0), std::find(own, end, 0) - own};
  const ScopedIssuer issued(group_, issuer_);
  const std::vector<std::int64_t> all = all_gather_on_host(group_, mine);
  std::string text;
  for (std::size_t rank = 0; 2 * rank < all.size(); ++rank) {
    const Bad bad{all[2 * rank], all[2 * rank + 1]};
    if (bad.count == 0) continue;
    text += (text.empty() ? "" : ", ") +
            describe_bad(group_.state().names.rank(static_cast<int>(rank)), bad, parameters_);
  }
  return text;
}

}  // namespace ddp
