// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/replica_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

// The value that most ranks have; in a tie, the one of the lowest rank.
std::uint64_t most_common(std::span<const std::uint64_t> values) {
  return *std::max_element(values.begin(), values.end(), [&](std::uint64_t a, std::uint64_t b) {
    return std::count(values.begin(), values.end(), a) <
           std::count(values.begin(), values.end(), b);
  });
}

}  // namespace

ReplicaCheck::ReplicaCheck(ProcessGroup& group, std::uint8_t issuer, ControlVector& control,
                           std::span<const Parameter> parameters, const DdpOptions& options)
    : group_(group),
      issuer_(issuer),
      control_(control),
      parameters_(parameters),
      buffers_(options.buffers),
      fingerprints_(group, parameters_.size() + buffers_.size(), DType::kInt64),
      every_(static_cast<std::uint64_t>(options.fingerprint_every)),
      compared_(fingerprints_.buffer().count),
      looks_at_first_step_(group.rank() == 0 && options.non_finite != NonFinite::kSkip) {
  const bool looks = group_.rank() == 0 && options.non_finite == NonFinite::kIgnore;
  if (looks) finite_.emplace(group_, parameters_);
}

std::uint64_t ReplicaCheck::begin_step(std::uint64_t step, Stream stream) {
  const bool is_cuda = group_.device().is_cuda();
  if (is_cuda && step > 2 && is_due(step - 2)) check();
  if (is_cuda && is_due(step - 1)) take_results();
  if (!is_due(step)) return combined_;
  take_parameters(step, stream);
  if (!is_cuda) take_results();
  return combined_;
}

void ReplicaCheck::take_results() {
  compared_in_ = taken_in_;
  std::memcpy(compared_.data(), fingerprints_.arrived(), compared_.size() * sizeof compared_[0]);
  combined_ = combined();
  if (finite_ && finite_->warn()) finite_.reset();
  if (looks_at_first_step_) look_at_first_step();
}

// Compares what was taken in steps 1 and 2.
void ReplicaCheck::look_at_first_step() {
  const std::span now(compared_.data(), parameters_.size());
  if (before_first_step_.empty()) {
    before_first_step_.assign(now.begin(), now.end());
    return;
  }
  looks_at_first_step_ = false;
  if (!std::ranges::equal(before_first_step_, now)) return;
  logging::warning(fmt::format(
      "[ddp] step {} changed no parameter: the optimizer did not step before step {}, its learning "
      "rate or all gradients were 0, or the parameters are no longer in the memory that the engine "
      "was given. Two backward passes that belong to one step need accumulate() or no_sync(): "
      "otherwise the gradients of the second replace those of the first",
      compared_in_ - 1, compared_in_));
}

void ReplicaCheck::end_step(Stream consumer, bool has_samples) {
  const bool is_first = taken_in_ == steps_before_ + 1;
  if (is_first && !has_samples) looks_at_first_step_ = false;  // it may change nothing
  if (std::exchange(is_reading_, false)) fingerprints_.make_wait(consumer);
  if (!group_.device().is_cuda()) check();
}

void ReplicaCheck::check() {
  if (control_.complete_ledger().replicas_agree()) return;
  throw MismatchError("[ddp] " + difference());
}

void ReplicaCheck::take_parameters(std::uint64_t step, Stream stream) {
  // In the first step, it is not known on which stream the parameters were written.
  if (step == 1 && group_.device().is_cuda()) cu::synchronize_device(group_.device());
  taken_in_ = steps_before_ + step;
  is_reading_ = true;
  if (finite_) finite_->take(taken_in_, stream);
  auto* results = static_cast<std::uint64_t*>(fingerprints_.buffer().data);
  for (const Parameter& parameter : parameters_) fingerprint(parameter.value, results++, stream);
  fingerprints_.download(stream);
}

void ReplicaCheck::take_buffers(Stream stream) {
  auto* results = static_cast<std::uint64_t*>(fingerprints_.buffer().data) + parameters_.size();
  for (const ModelBuffer& buffer : buffers_) fingerprint(buffer.value, results++, stream);
  fingerprints_.download(stream);
}

std::uint64_t ReplicaCheck::combined() const {
  std::uint64_t result = steps_before_;
  for (const std::uint64_t each : compared_) {
    result = (std::rotl(result, 23) ^ each) * 0x9e3779b97f4a7c15U;
  }
  return result;
}

std::string ReplicaCheck::name(std::size_t i) const {
  if (i < parameters_.size()) return "parameter '" + parameters_[i].name + "'";
  return "buffer '" + buffers_[i - parameters_.size()].name + "'";
}

std::string ReplicaCheck::difference() {
  std::vector<std::int64_t> mine{static_cast<std::int64_t>(steps_before_)};
  mine.insert(mine.end(), compared_.begin(), compared_.end());
  const ScopedIssuer issued(group_, issuer_);
  const std::vector<std::int64_t> all = all_gather_on_host(group_, mine);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    std::vector<std::uint64_t> by_rank;
    for (std::size_t at = i; at < all.size(); at += mine.size()) {
      by_rank.push_back(static_cast<std::uint64_t>(all[at]));
    }
    const auto differs = std::ranges::adjacent_find(by_rank, std::ranges::not_equal_to());
    if (differs == by_rank.end()) continue;
    return i == 0 ? describe_beginnings(by_rank) : describe(i - 1, by_rank);
  }
  return "replicas have diverged: step " + std::to_string(compared_in_) + ": fingerprints differ";
}

std::string ReplicaCheck::describe_beginnings(std::span<const std::uint64_t> by_rank) const {
  const GroupNames& names = group_.state().names;
  const auto other =
      std::ranges::find_if(by_rank, [&](std::uint64_t n) { return n != by_rank[0]; });
  return fmt::format(
      "ranks go on after different numbers of steps (continue_after): {} after {}, {} after {}",
      names.rank(0), by_rank[0], names.rank(static_cast<int>(other - by_rank.begin())), *other);
}

std::string ReplicaCheck::describe(std::size_t i, std::span<const std::uint64_t> by_rank) const {
  const std::uint64_t usual = most_common(by_rank);
  const GroupNames& names = group_.state().names;
  std::string text = fmt::format("replicas have diverged: step {}: {} of ", compared_in_, name(i));
  const char* separator = "";
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] == usual) continue;
    text += fmt::format("{}{} (fingerprint {:x})", separator, names.rank(static_cast<int>(rank)),
                        by_rank[rank]);
    separator = ", ";
  }
  const auto reference = std::ranges::find(by_rank, usual) - by_rank.begin();
  return text +
         fmt::format(
             " differs from that of {} ({:x}). Ranks have changed it differently: by another "
             "learning rate or random numbers, a decision by a rank's own loss, an update on some "
             "ranks only, gradients written after mark_ready, or since it has moved to other "
             "memory",
             names.rank(static_cast<int>(reference)), usual);
}

}  // namespace ddp
