// SPDX-License-Identifier: MIT
#include "ddp/collectives/peers/rank_identity.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/process_status.h"

namespace ddp {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Empty if there is no such link.
std::string link_target(const std::string& path) {
  std::array<char, 256> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return {target.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

bool may_trace_all() { return ::geteuid() == 0 && ::prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE) == 1; }

// Without /proc, of which nothing can be read if descriptors are exhausted.
bool exists(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

}  // namespace

HostFacts host_facts() {
  return {.boot_id = first_line("/proc/sys/kernel/random/boot_id"),
          .pid_namespace = link_target("/proc/self/ns/pid"),
          .user_namespace = link_target("/proc/self/ns/user"),
          .user = std::to_string(::geteuid()) + ":" + std::to_string(::getegid()),
          .pid = ::getpid(),
          .proc_self = link_target("/proc/self")};
}

std::string obstacle_to_sharing(const HostFacts& facts) {
  if (facts.proc_self.empty()) return "/proc is not mounted: mount -t proc proc /proc";
  if (facts.proc_self != std::to_string(facts.pid)) {
    return "/proc belongs to another pid namespace: mount -t proc proc /proc";
  }
  if (facts.boot_id.empty() || facts.pid_namespace.empty()) {
    return "/proc/sys/kernel/random/boot_id or /proc/self/ns cannot be read: give this process "
           "access";
  }
  return "";
}

std::string obstacle_to_sharing() {
  const std::string obstacle = obstacle_to_sharing(host_facts());
  if (!obstacle.empty()) return obstacle;
  if (::prctl(PR_GET_DUMPABLE) != 1 && !may_trace_all()) {
    return "other processes may not open its descriptors, since its program has capabilities "
           "(setcap -r), may not be read (chmod a+r), or has set PR_SET_DUMPABLE";
  }
  const FileDescriptor memory(::memfd_create("ddp-probe", MFD_CLOEXEC));
  if (memory.is_open()) return "";
  return "memfd_create is refused (" + error_text(errno) +
         "): allow it in the container's seccomp profile";
}

std::string host_identity(const HostFacts& facts) {
  if (!obstacle_to_sharing(facts).empty()) {
    return "process " + std::to_string(facts.pid) + " of " + host_name();
  }
  return facts.boot_id + "/" + facts.pid_namespace + "/" + facts.user_namespace + "/" + facts.user;
}

std::string host_identity() { return host_identity(host_facts()); }

RankIdentity identify_self(int rank, Device device) {
  return {.rank = rank,
          .host = host_identity(),
          .host_name = host_name(),
          .pid = ::getpid(),
          .start_time = read_process(::getpid()).value_or(ProcessStat()).start_time,
          .device = to_string(device)};
}

std::string to_string(const RankIdentity& who) {
  return "rank " + std::to_string(who.rank) + " (" + who.host_name + ", pid " +
         std::to_string(who.pid) + ", " + who.device + ")";
}

FieldWriter& operator<<(FieldWriter& fields, const RankIdentity& who) {
  return fields << who.rank << who.pid << who.start_time << who.host << who.host_name << who.device;
}

FieldReader& operator>>(FieldReader& fields, RankIdentity& who) {
  return fields >> who.rank >> who.pid >> who.start_time >> who.host >> who.host_name >> who.device;
}

std::string serialize(const RankIdentity& who) {
  FieldWriter fields;
  fields << who;
  return fields.text();
}

RankIdentity parse_rank_identity(const std::string& text) {
  FieldReader fields(text);
  RankIdentity who;
  if (!(fields >> who)) {
    throw NetworkError("[identity] this is not a description of a rank: \"" + text + "\"");
  }
  return who;
}

ProcessState state_of(const RankIdentity& who) {
  const HostFacts facts = host_facts();
  const bool sees_processes = obstacle_to_sharing(facts).empty();
  if (!sees_processes || who.host != host_identity(facts)) return ProcessState::kUnknown;
  const auto process = read_process(who.pid);
  if (!process) return exists(who.pid) ? ProcessState::kUnknown : ProcessState::kEnded;
  if (process->is_zombie()) return ProcessState::kEnded;
  if (who.start_time != 0 && process->start_time != who.start_time) return ProcessState::kEnded;
  return process->is_stopped() ? ProcessState::kStopped : ProcessState::kAlive;
}

}  // namespace ddp
