// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/process_group.h"

namespace ddp::test {

// A group that records what is submitted, and sums as if all ranks had submitted the same.
class RecordingGroup final : public ProcessGroup {
 public:
  explicit RecordingGroup(int world_size)
      : ProcessGroup({.store = nullptr, .rank = world_size - 1, .world_size = world_size}) {}
  std::string_view backend() const override { return "recording"; }
  Allocation do_allocate(std::size_t size_bytes) override { return allocate_host(size_bytes); }
  void check_on(std::span<const int>, const std::function<bool()>&) override {}

  std::vector<Collective> submitted;

 protected:
  void do_abort(std::string_view) override {}
  std::uint64_t submit(std::span<const Collective> operations) override {
    for (const Collective& each : operations) run(each);
    return submitted.size();
  }
  void run(const Collective& collective) {
    if (collective.kind == CollectiveKind::kAllGather) {  // the model check: all hashes are equal
      for (std::int64_t& hash : collective.output.as<std::int64_t>()) {
        hash = collective.input.as<std::int64_t>()[0];
      }
    }
    if (collective.kind == CollectiveKind::kAllReduce) {
      const double factor = average_factor(collective, std::size_t(world_size()));
      for (double& value : collective.output.as<double>()) value *= world_size() * factor;
    }
    submitted.push_back(collective);
  }
  void wait(std::uint64_t, Stream) override {}
  void wait_host(std::uint64_t, Timeout) override {}
  void time_last(std::uint64_t) override {}
  std::optional<Interval> interval(std::uint64_t) override { return std::nullopt; }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig) override { return nullptr; }
};

}  // namespace ddp::test
