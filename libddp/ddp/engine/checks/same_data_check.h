// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Finds ranks that read the same samples, as they do if a sampler is not told its rank: their
// gradients in the first step are equal bit for bit. The job would train all the same, as if it had
// one rank.
//
// Fingerprints are taken in the first step, sent in the control vectors of the later ones, and
// compared when one of these has arrived. On CUDA the host waits once, when the second step begins,
// for a copy from the first one's backward pass.
class SameDataCheck {
 public:
  // The group must outlive this object.
  explicit SameDataCheck(ProcessGroup& group);

  // In the first step of a rank that has samples: fingerprints this rank's gradients, some of which
  // are in `bucket` when the work on `stream` has run.
  void take(const Buffer& bucket, Stream stream);
  // What to send in later steps; 0 if there is nothing to compare.
  [[nodiscard]] std::uint64_t fingerprint();
  // What to warn of, once all ranks have sent their fingerprints; empty the next time.
  [[nodiscard]] std::string warning(const ControlLedger& arrived);

 private:
  bool is_pending_ = false;  // taken, and perhaps still on its way to the host
  bool is_over_ = false;
  std::uint64_t own_ = 0;
  std::uint64_t of_zeros_ = 0;  // the fingerprint that gradients have if all of them are 0
  HostMirror fingerprint_;
};

}  // namespace ddp
