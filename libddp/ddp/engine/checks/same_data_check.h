// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Finds ranks that read the same samples, as they do if a sampler is not told its rank: their
// gradients in the first two steps are equal bit for bit. The job would train all the same, as if
// it had one rank. In one step alone, few elements may be equal by chance: the gradient of a bias
// counts labels while the weights are 0.
//
// Fingerprints are taken in these steps, sent in the control vectors of the later ones, and
// compared when one of these has arrived. On CUDA the host waits at the beginning of the next step
// for a copy from the backward pass before.
class SameDataCheck {
 public:
  // The group must outlive this object.
  explicit SameDataCheck(ProcessGroup& group);

  // True in the steps whose gradients are compared: 1 and 2.
  [[nodiscard]] static bool compares(std::uint64_t step) { return step <= kSteps; }
  // In such a step, if this rank has samples: fingerprints its gradients, some of which are in
  // `bucket` when the work on `stream` has run.
  void take(const Buffer& bucket, Stream stream);
  // At the beginning of each step: what to send in it; 0 if there is nothing to compare.
  [[nodiscard]] std::uint64_t fingerprint();
  // What to warn of, once all ranks have sent their fingerprints; empty the next time.
  [[nodiscard]] std::string warning(const ControlLedger& arrived);

 private:
  static constexpr std::uint64_t kSteps = 2;

  bool is_pending_ = false;  // taken, and perhaps still on its way to the host
  std::uint64_t taken_ = 0;  // in how many steps
  bool is_over_ = false;
  std::uint64_t own_ = 0;  // of all steps so far
  std::optional<std::uint64_t>
      of_zeros_;  // the fingerprint that gradients have if all of them are 0
  GroupNames names_;
  HostMirror fingerprint_;
};

}  // namespace ddp
