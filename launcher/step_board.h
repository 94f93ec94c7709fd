// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/base/socket.h"
#include "ddp/base/start_mark.h"

namespace ddp::launcher {

// Where this node's workers note the steps that they begin; see ddp/base/step_file.h. Memory
// without a name: it ends with the last process that has it open.
class StepBoard {
 public:
  // All slots are 0. Where there is no such memory the board stays empty.
  explicit StepBoard(int local_world_size);

  // For DDP_STEP_FILE; empty: there is none.
  [[nodiscard]] std::string path() const;

  // The last step that a worker has begun, if any.
  [[nodiscard]] std::optional<std::int64_t> step(int local_rank) const;
  // How far it has come in init_process_group.
  [[nodiscard]] StartPhase start_phase(int local_rank) const;

 private:
  FileDescriptor memory_;
};

}  // namespace ddp::launcher
