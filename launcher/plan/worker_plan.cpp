// SPDX-License-Identifier: MIT
#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {
namespace {

std::string path_in(const std::string& directory, int local_rank, const char* file) {
  return directory.empty() ? "" : rank_directory(directory, local_rank) + file;
}

}  // namespace

std::string rank_directory(const std::string& directory, int local_rank) {
  return directory + "/" + std::to_string(local_rank);
}

std::string error_file(const std::string& directory, int local_rank) {
  return path_in(directory, local_rank, "/error.json");
}

std::string crash_file(const std::string& directory, int local_rank) {
  return path_in(directory, local_rank, "/crash.txt");
}

std::string events_file(const std::string& directory, int local_rank) {
  return path_in(directory, local_rank, "/events.txt");
}

Placement placement_of(const WorkerPlan& plan, int local_rank) {
  if (plan.placements.empty()) return {};
  return plan.placements.at(static_cast<std::size_t>(local_rank));
}

}  // namespace ddp::launcher
