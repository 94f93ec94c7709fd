// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/collectives/process_group.h"

namespace ddp::bench {

// One way for our ranks to all_reduce float32 sums in place. It does not spin between calls.
struct Contender {
  std::string name;
  Buffer memory;  // this rank's operand; smaller operands are its first part
  std::function<void()> meet;
  std::function<void(const Buffer&)> all_reduce;  // returns when it has ended
  std::optional<int> cpu = std::nullopt;          // to which this rank is pinned during a sample
};

// All contenders of this build, in the same order on all ranks: "bound", "shm" (in the group's
// memory), "user" (shm with ordinary memory) and "tcp".
class Contenders {
 public:
  // Collective.
  explicit Contenders(std::size_t max_bytes);

  [[nodiscard]] const std::vector<Contender>& all() const { return all_; }
  // The group of the measured ranks.
  [[nodiscard]] ProcessGroup& group() const { return *shm_; }

 private:
  void add_bound(std::size_t max_bytes);
  void add(const std::string& name, ProcessGroup& group, Allocation memory);

  std::shared_ptr<ProcessGroup> shm_;
  std::shared_ptr<ProcessGroup> tcp_;
  std::vector<Allocation> memory_;
  std::vector<Contender> all_;
};

// The microseconds of a call: the mean of `calls` calls that follow a meeting. Collective, as is
// check().
[[nodiscard]] double microseconds(const Contender& contender, std::size_t bytes, int calls);

// Makes one call with known values. Throws ddp::Error if the result is wrong. Leaves zeros, which
// stay small however often they are summed.
void check(const Contender& contender, std::size_t bytes, const ProcessGroup& ranks);

}  // namespace ddp::bench
