// SPDX-License-Identifier: MIT
#include "ddp/collectives/rank_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace ddp {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string host_identity() {
  struct stat status {};
  const bool known = ::stat("/proc/self/ns/pid", &status) == 0;
  return first_line("/proc/sys/kernel/random/boot_id") + "/" +
         (known ? std::to_string(status.st_ino) : "unknown");
}

RankIdentity identify_self(int rank, Device device) {
  return {.rank = rank,
          .host = host_identity(),
          .host_name = host_name(),
          .pid = ::getpid(),
          .device = to_string(device)};
}

std::string to_string(const RankIdentity& who) {
  return "rank " + std::to_string(who.rank) + " (" + who.host_name + ", pid " +
         std::to_string(who.pid) + ", " + who.device + ")";
}

std::string serialize(const RankIdentity& who) {
  return std::to_string(who.rank) + ' ' + std::to_string(who.pid) + '\n' + who.host + '\n' +
         who.host_name + '\n' + who.device + '\n';
}

std::istream& operator>>(std::istream& lines, RankIdentity& who) {
  lines >> who.rank >> who.pid;
  lines.ignore();
  std::getline(lines, who.host);
  std::getline(lines, who.host_name);
  std::getline(lines, who.device);
  return lines;
}

// /proc/PID/stat is "PID (name) state ...", and the name may hold anything.
ProcessState state_of(const RankIdentity& who) {
  if (who.host != host_identity()) return ProcessState::kUnknown;
  const std::string line = first_line("/proc/" + std::to_string(who.pid) + "/stat");
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return ProcessState::kEnded;
  switch (line[name_end + 2]) {
    case 'T':
    case 't':  // by a debugger
      return ProcessState::kStopped;
    case 'Z':
    case 'X':
      return ProcessState::kEnded;
    default:
      return ProcessState::kAlive;
  }
}

}  // namespace ddp
