// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace ddp::soak {

// Where kills hit a process that saved one checkpoint after the other.
struct CheckpointKills {
  int rounds = 0;
  int in_file = 0;      // the checkpoint was being written
  int before_list = 0;  // it was written, but not yet listed in `latest`
};

// Lets processes save checkpoints into `directory`, each going on from what the one before left,
// and kills each with SIGKILL at a random moment. Throws unless after each the newest checkpoint
// and the best load, are what was written, nothing is lost that was reported as saved, and no old
// one is left over.
[[nodiscard]] CheckpointKills kill_while_saving(const std::filesystem::path& directory, int rounds);

}  // namespace ddp::soak
