// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace ddp::soak {

// At which point of a save the kills happened.
struct CheckpointKills {
  int rounds = 0;
  int in_file = 0;      // the checkpoint was being written
  int before_list = 0;  // it was written, but not yet listed in `latest`
};

// Runs processes that save checkpoints into `directory`, each of which continues from what the
// previous one left, and kills each with SIGKILL at a random moment. Throws unless after each kill
// the newest and the best checkpoint load with the right contents, no checkpoint that was reported
// as saved is lost, and no old one is left over.
[[nodiscard]] CheckpointKills kill_while_saving(const std::filesystem::path& directory, int rounds);

}  // namespace ddp::soak
