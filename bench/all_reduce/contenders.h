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

// One way for our ranks to all_reduce float32 sums in place. Nothing of it spins between calls.
struct Contender {
  std::string name;
  Buffer memory;  // this rank's operand; smaller ones are its beginning
  std::function<void()> meet;
  std::function<void(const Buffer&)> all_reduce;  // to its end
  std::optional<int> cpu = std::nullopt;          // where this rank stays meanwhile
};

// All that this build has, the same on all ranks: "bound", "shm" (memory of the group's), "user"
// (shm with plain memory) and "gloo".
class Contenders {
 public:
  // Collective.
  explicit Contenders(std::size_t max_bytes);

  [[nodiscard]] const std::vector<Contender>& all() const { return all_; }
  // Of the ranks.
  [[nodiscard]] ProcessGroup& group() const { return *shm_; }

 private:
  void add_bound(std::size_t max_bytes);
  void add(const std::string& name, ProcessGroup& group, Allocation memory);

  std::shared_ptr<ProcessGroup> shm_;
  std::shared_ptr<ProcessGroup> gloo_;
  std::vector<Allocation> memory_;
  std::vector<Contender> all_;
};

// A call's, the mean of so many after a meeting. Collective, as is check().
[[nodiscard]] double microseconds(const Contender& contender, std::size_t bytes, int calls);

// One call with known values. Throws ddp::Error for a wrong result; leaves zeros, which stay small
// whatever is done to them.
void check(const Contender& contender, std::size_t bytes, const ProcessGroup& ranks);

}  // namespace ddp::bench
