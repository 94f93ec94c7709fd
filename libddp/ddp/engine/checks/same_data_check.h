// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/host_mirror.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// Finds ranks that read the same samples, as they do if a sampler is not told its rank: their
// gradients in the first two steps are equal bit for bit. The job would train all the same, as if
// it had one rank. Of each bucket the first elements are compared, since those of one parameter may
// be equal by their nature: the gradient of a bias counts labels while the weights are 0. In one
// step alone, so may all of them.
//
// Fingerprints are taken in these steps, sent in the control vectors of the later ones, and
// compared when one of these has arrived. On CUDA the host waits at the beginning of the next step
// for a copy from the step before.
class SameDataCheck {
 public:
  // Both must outlive this object.
  SameDataCheck(ProcessGroup& group, const Reducer& reducer);

  // True in the steps whose gradients are compared: 1 and 2.
  [[nodiscard]] static bool compares(std::uint64_t step) { return step <= kSteps; }
  // In such a step, if this rank has samples, for each bucket: fingerprints its gradients, which
  // are there when the work on `stream` has run.
  void take(std::size_t b, Stream stream);
  // At the end of each step: `stream` runs behind all streams of its buckets.
  void end_step(Stream stream);
  // At the beginning of each step: what to send in it; 0 if there is nothing to compare.
  [[nodiscard]] std::uint64_t fingerprint();
  // What to warn of, once all ranks have sent their fingerprints; empty the next time.
  [[nodiscard]] std::string warning(const ControlLedger& arrived);

 private:
  static constexpr std::uint64_t kSteps = 2;

  [[nodiscard]] Buffer compared_part(std::size_t b) const;

  const Reducer& reducer_;
  bool is_taken_ = false;    // in this step
  bool is_pending_ = false;  // perhaps still on its way to the host
  std::uint64_t taken_ = 0;  // in how many steps
  bool is_over_ = false;
  std::uint64_t own_ = 0;  // of all steps so far
  GroupNames names_;
  HostMirror fingerprints_;              // by bucket
  std::vector<std::uint64_t> of_zeros_;  // that buckets have if all gradients are 0
};

}  // namespace ddp
