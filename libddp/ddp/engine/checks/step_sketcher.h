// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/step_sketch.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Under ddp-prove (DDP_PROVE_FILE is set): appends sketches of an engine's first steps
// (DDP_PROVE_STEPS) to that file. Once every engine of the process has made them, or was destroyed,
// the process ends, since the rest of the training would prove nothing, and must not overwrite the
// user's files. It is cut off when one engine has made kCutOffAfter times these steps. With
// DDP_PROVE_NUDGE=1 the parameters begin with other last bits, the same on all ranks, to show how
// far rounding grows.
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
  ~StepSketcher();
  StepSketcher(const StepSketcher&) = delete;
  StepSketcher& operator=(const StepSketcher&) = delete;

  // Collective, at the end of a step: the gradients, multiplied by `scale`, are the mean over the
  // `samples` of all ranks. Blocks the host. Rank 0 throws FileError if it cannot write.
  void add(std::uint64_t step, double samples, double scale, Stream stream);

 private:
  [[nodiscard]] StepSketch sketch_of(std::uint64_t step, double samples, double scale,
                                     Stream stream) const;
  void write(std::string_view line) const;  // on rank 0
  [[noreturn]] void end_process();

  ProcessGroup& group_;
  std::string path_;
  std::int64_t steps_;
  std::int64_t steps_made_ = 0;
  std::span<const Parameter> parameters_;
  std::vector<Buffer> gradients_;
  bool has_buffers_;
  int engine_;
};

}  // namespace ddp
