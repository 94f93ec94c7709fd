// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/step_sketch.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Under ddp-prove (DDP_PROVE_FILE is set): appends sketches of the first steps to that file, and
// ends the process after the last of them (DDP_PROVE_STEPS), since the rest of the training would
// prove nothing, and must not overwrite the user's files. With DDP_PROVE_NUDGE=1 the parameters
// begin with other last bits, the same on all ranks, to show how far rounding grows.
class StepSketcher {
 public:
  // Nothing if ddp-prove did not start this process. `gradients` are those of the parameters; the
  // group, the parameters and the memory of the gradients must outlive this object.
  static std::unique_ptr<StepSketcher> from_environment(ProcessGroup& group,
                                                        std::span<const Parameter> parameters,
                                                        std::vector<Buffer> gradients,
                                                        bool has_buffers);

  StepSketcher(ProcessGroup& group, std::string path, int steps,
               std::span<const Parameter> parameters, std::vector<Buffer> gradients,
               bool has_buffers);

  // Collective, at the end of a step: the gradients, multiplied by `scale`, are the mean over the
  // `samples` of all ranks. Blocks the host. Rank 0 throws FileError if it cannot write.
  void add(std::uint64_t step, double samples, double scale, Stream stream);

 private:
  void write(const StepSketch& step) const;
  [[noreturn]] void end_process();

  ProcessGroup& group_;
  std::string path_;
  int steps_left_;
  std::span<const Parameter> parameters_;
  std::vector<Buffer> gradients_;
  bool has_buffers_;
  int engine_;
};

}  // namespace ddp
