// SPDX-License-Identifier: MIT
//
// What libddp says about the operations that it submits, for as long as an object lives. All of it
// is for the thread that submits to the group.
#pragma once

#include <cstdint>
#include <string_view>

#include "ddp/base/scoped_value.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/hang/operation_labels.h"

namespace ddp {

// Operations count as parts of a larger operation, whose hash is `part_of`. Backends that compare
// the ranks' calls for each operation (tcp) compare the hash, too.
class [[nodiscard]] ScopedPart : ScopedValue<std::uint64_t> {
 public:
  ScopedPart(ProcessGroup& group, std::uint64_t part_of)
      : ScopedValue(group.state().context.part_of, part_of) {}
};

// Operations belong to `issuer`, such as an engine; the issuer must be the same on all ranks. This
// tells apart operations of two engines that are otherwise alike. Issuer 0 is the program itself.
class [[nodiscard]] ScopedIssuer : ScopedValue<std::uint8_t> {
 public:
  ScopedIssuer(ProcessGroup& group, std::uint8_t issuer)
      : ScopedValue(group.state().context.issuer, issuer) {}
};

// With several ranks on the CPU: a kAverage divides by *divisor in place of world_size; if that is
// 0, finite sums become 0. It is read when the operation runs, after all operations before it, so
// one of them may compute it. It must stay as it is until the operation is done, and be equal on
// all ranks.
class [[nodiscard]] ScopedDivisor : ScopedValue<const double*> {
 public:
  ScopedDivisor(ProcessGroup& group, const double* divisor)
      : ScopedValue(group.state().context.divisor, divisor) {}
};

// As ScopedLabel, with a label that the group's recorder has already.
class [[nodiscard]] ScopedKnownLabel : ScopedValue<OperationLabels::Label> {
 public:
  ScopedKnownLabel(ProcessGroup& group, OperationLabels::Label label)
      : ScopedValue(group.state().context.label, label) {}
};

// A number for ScopedIssuer: 1, 2, ... up to 255, then 1 again. All ranks get the same number if
// they call this in the same order.
[[nodiscard]] std::uint8_t new_issuer(ProcessGroup& group);

// The other ranks wait for this one to finish the call `where`, so no rank would join an operation
// that this rank submits to the group. Submitting one therefore throws std::logic_error at once, as
// does a second ScopedSolo. The same holds on this thread for groups that this group was made from,
// or that were made from the same one, if one of the waiting ranks belongs to them.
class [[nodiscard]] ScopedSolo {
 public:
  ScopedSolo(ProcessGroup& group, const char* where);
  ~ScopedSolo();
  ScopedSolo(const ScopedSolo&) = delete;
  ScopedSolo& operator=(const ScopedSolo&) = delete;

 private:
  GroupState& state_;
};

// Throws std::logic_error if the group is in a ScopedSolo.
void check_not_solo(const GroupState& state, std::string_view call);

}  // namespace ddp
