// SPDX-License-Identifier: MIT
//
// The main job: trains a model with any number of ranks.
//   ddp-launch --nproc_per_node=2 build/bin/train --model mlp --epochs 3
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

#include "ddp/base/error.h"
#include "ddp/base/error_record.h"
#include "ddp/base/worker_env.h"
#include "option_checks.h"
#include "options.h"
#include "parse_options.h"
#include "tool.h"
#include "trainer.h"

namespace {

// Ctrl-C also ends what reads the output, such as the `tee` of `train | tee log`. What it no longer
// reads must not count as output that could not be written.
void drop_unread_output() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  const bool is_unread = ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
  if (is_unread) static_cast<void>(!std::freopen("/dev/null", "w", stdout));
}

// After a stop, a process that nobody launched ends with the launcher's exit code for it, so that
// `train && evaluate` goes no further. A launched one has done what it was asked: ddp-launch knows
// why it ended, and to others a code other than 0 is a failure.
int exit_code_after(const train::Trainer& trainer) {
  const std::optional<int> signal_number = trainer.stopped_by();
  if (signal_number) drop_unread_output();
  const bool is_launched = !ddp::WorkerEnv::from_environment().master.host.empty();
  if (!signal_number || is_launched) return 0;
  return 128 + (*signal_number == SIGINT ? SIGINT : SIGTERM);
}

// Tells the other ranks an error of this rank; an error that came from another rank is known to
// them.
int run(const train::Options& options, const std::shared_ptr<ddp::ProcessGroup>& group) {
  try {
    train::check_for_ranks(options, group->world_size());
    train::Trainer trainer(options, group);
    trainer.run();
    return exit_code_after(trainer);
  } catch (const std::exception& error) {
    if (!ddp::is_caused_by_peer(std::current_exception())) group->abort(ddp::describe(error));
    throw;
  }
}

std::shared_ptr<ddp::ProcessGroup> join(const train::Options& options) {
  try {
    return ddp::init_process_group({.backend = options.backend, .device = options.device});
  } catch (const ddp::EnvironmentError&) {
    const char* why = nullptr;
    if (options.backend == ddp::Backend::kNccl) {
      why = "--backend nccl needs a GPU; --backend auto works without";
    }
    if (options.device == ddp::DeviceChoice::kCuda) {
      why = "--device cuda needs a GPU; --device cpu works without";
    }
    if (why == nullptr) throw;
    ddp::ErrorFile::from_environment().clear();  // what init_process_group recorded says less
    std::throw_with_nested(ddp::EnvironmentError(why));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("train", [&] {
    const auto options = train::parse_options(argc, argv);
    return options ? run(*options, join(*options)) : 0;
  });
}
