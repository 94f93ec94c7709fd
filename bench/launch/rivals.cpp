// SPDX-License-Identifier: MIT
#include "launch/rivals.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>

#include "ddp/base/error.h"

namespace ddp::bench {
namespace {

using Strings = std::vector<std::string>;

Strings ddp_launch(const std::string& bin, int workers) {
  return {bin + "/ddp-launch", "-n", std::to_string(workers), "--show", "all", "--"};
}

// mpirun refuses to run as root, and with more workers than cores, unless options allow both.
Strings mpirun(const std::string& /*bin*/, int workers) {
  return {"mpirun", "--oversubscribe", "--allow-run-as-root", "-n", std::to_string(workers)};
}

// Version 1.13 needs redirection under Python 3.11; --tee copies what goes to the files to the
// terminal. The monitor interval is set because its default is 5 s; in later versions it is 0.1 s.
Strings torchrun(const std::string& /*bin*/, int workers) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "bench_launch_logs";
  return {"torchrun",
          "--standalone",
          "--nproc_per_node",
          std::to_string(workers),
          "--monitor_interval",
          "0.1",
          "--redirects",
          "1",
          "--tee",
          "1",
          "--log_dir",
          folder.string(),
          "--no_python"};
}

bool works(const Launcher& launcher, const std::string& bin) {
  try {
    static_cast<void>(run_milliseconds(join(launcher.command(bin, 1), {"/bin/true"})));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<Launcher> launchers(const std::string& bin) {
  ::setenv("OMP_NUM_THREADS", "1", 0);  // without it torchrun prints a banner
  std::vector<Launcher> all = {{"ddp-launch", ddp_launch, 128, true},
                               {"mpirun", mpirun, 8, true},
                               {"torchrun", torchrun, 8, false}};
  std::erase_if(all, [&](const Launcher& launcher) { return !works(launcher, bin); });
  return all;
}

std::vector<std::string> join(std::vector<std::string> launcher, const Strings& program) {
  launcher.insert(launcher.end(), program.begin(), program.end());
  return launcher;
}

}  // namespace ddp::bench
