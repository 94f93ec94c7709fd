// SPDX-License-Identifier: MIT
#include "ddp/collectives/peers/rank_identity.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <string>

#include "support/grouping_locale.h"
#include "support/in_child.h"

using namespace ddp;

namespace {

// From now on the kernel asks the filter about each system call of this process; false if that is
// impossible.
template <std::size_t kSize>
bool install(std::array<sock_filter, kSize> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Makes memfd_create fail for this process, as a container's seccomp profile may.
bool refuse_memfd_create() {
  return install<4>({{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}});
}

// Makes what read_process() opens fail as if the last descriptor had just been taken.
bool take_last_descriptor() {
  return install<6>({{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
                      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDONLY | O_CLOEXEC, 0, 1),
                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}});
}

}  // namespace

TEST_CASE("hosts are distinguished by what the kernel checks", "[identity]") {
  const HostFacts facts{.boot_id = "b",
                        .pid_namespace = "pid:[1]",
                        .user_namespace = "user:[1]",
                        .user = "0:0",
                        .pid = 7,
                        .proc_self = "7"};
  const std::string host = host_identity(facts);
  HostFacts fellow = facts;
  fellow.pid = 8;
  fellow.proc_self = "8";
  CHECK(host_identity(fellow) == host);
  for (std::string HostFacts::*fact : {&HostFacts::boot_id, &HostFacts::pid_namespace,
                                       &HostFacts::user_namespace, &HostFacts::user}) {
    HostFacts other = fellow;
    other.*fact += "1";
    CHECK(host_identity(other) != host);
  }
  for (const char* proc_self : {"", "9"}) {
    HostFacts blind = fellow;
    blind.proc_self = proc_self;
    HostFacts blind_too = facts;
    blind_too.proc_self = proc_self;
    CHECK(host_identity(blind) != host_identity(blind_too));
    CHECK_THAT(obstacle_to_sharing(blind), Catch::Contains("mount -t proc"));
  }
  CHECK(obstacle_to_sharing(facts).empty());
}

TEST_CASE("ranks whose programs have different locales understand each other", "[identity]") {
  const RankIdentity who{.rank = 1234, .pid = 56789};
  std::string text;
  {
    const test::GroupingLocale locale;
    text = serialize(who);
  }
  CHECK(parse_rank_identity(text).pid == 56789);
  CHECK(text == serialize(who));
}

TEST_CASE("a process that got the pid of one that has ended is not taken for it", "[identity]") {
  RankIdentity who = identify_self(0, kCpuDevice);
  CHECK(state_of(who) == ProcessState::kAlive);
  --who.start_time;
  CHECK(state_of(who) == ProcessState::kEnded);
}

TEST_CASE("a process has not ended because descriptors are exhausted", "[identity]") {
  test::check_in_child([] {
    const RankIdentity who = identify_self(0, kCpuDevice);
    RankIdentity dead = who;
    dead.pid = std::numeric_limits<int>::max();  // Linux has no such pid
    if (!take_last_descriptor()) return test::Verdict::kImpossible;
    const bool is_right =
        state_of(who) == ProcessState::kUnknown && state_of(dead) == ProcessState::kEnded;
    return is_right ? test::Verdict::kGood : test::Verdict::kBad;
  });
}

TEST_CASE("if memfd_create is refused, a rank says what to allow", "[identity]") {
  CHECK(obstacle_to_sharing().empty());
  test::check_in_child([] {
    if (!refuse_memfd_create()) return test::Verdict::kImpossible;
    const std::string obstacle = obstacle_to_sharing();
    const bool says_all = obstacle.find("memfd_create is refused") != std::string::npos &&
                          obstacle.find("seccomp") != std::string::npos;
    return says_all ? test::Verdict::kGood : test::Verdict::kBad;
  });
}

TEST_CASE("a program whose descriptors others may not open shares no memory", "[identity]") {
  test::check_in_child([] {
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE);  // only root can, and only root must
    if (::prctl(PR_SET_DUMPABLE, 0) != 0) return test::Verdict::kImpossible;
    const bool says_why = obstacle_to_sharing().find("setcap -r") != std::string::npos;
    return says_why ? test::Verdict::kGood : test::Verdict::kBad;
  });
}
