// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// Fails if backward marks a gradient ready too often, or leaves one out. The other ranks wait for
// this rank's buckets, so it aborts the group: they throw PeerError with the same text.
class MarkCheck {
 public:
  // The arguments must outlive this object.
  MarkCheck(ProcessGroup& group, const Reducer& reducer, std::span<const Parameter> parameters,
            UnusedParameters unused)
      : group_(group), reducer_(reducer), parameters_(parameters), unused_(unused) {}

  // For a gradient that the reducer does not accept.
  [[noreturn]] void refuse(std::size_t i, std::uint64_t step) const;
  // Call it at the end of a pass. A rank without samples may not have run backward.
  void check_all_ready(std::uint64_t step, double samples) const {
    if (!reducer_.are_all_ready()) check_unready(step, samples);
  }

 private:
  void check_unready(std::uint64_t step, double samples) const;
  [[nodiscard]] std::string missing() const;
  [[noreturn]] void fail(std::uint64_t step, const std::string& what) const;

  ProcessGroup& group_;
  const Reducer& reducer_;
  std::span<const Parameter> parameters_;
  UnusedParameters unused_;
};

}  // namespace ddp
