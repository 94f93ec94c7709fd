// SPDX-License-Identifier: MIT
#include "launcher/plan/attempt_folder.h"

namespace ddp::launcher {
namespace {

std::string path_in(const std::string& folder, const std::string& name) {
  return folder.empty() ? "" : folder + "/" + name;
}

}  // namespace

std::string AttemptFolder::rank_folder(int local_rank) const {
  return path_in(path, std::to_string(local_rank));
}

std::string AttemptFolder::log_file(int local_rank, Channel channel) const {
  return path_in(rank_folder(local_rank), channel == Channel::kOut ? "stdout.log" : "stderr.log");
}

std::string AttemptFolder::error_file(int local_rank) const {
  return path_in(rank_folder(local_rank), "error.json");
}

std::string AttemptFolder::crash_file(int local_rank) const {
  return path_in(rank_folder(local_rank), "crash.txt");
}

std::string AttemptFolder::events_file(int local_rank) const {
  return path_in(rank_folder(local_rank), "events.txt");
}

}  // namespace ddp::launcher
