// SPDX-License-Identifier: MIT
//
// Reading the kernel's memory counters, from fake files.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "launcher/verdict/memory_watch.h"
#include "launcher/verdict/post_mortem.h"
#include "support/files.h"

using namespace ddp::launcher;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

namespace {

// The control groups and /proc of a fake machine.
class FakeKernel {
 public:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    write_bytes(folder_ / path, text);
  }
  [[nodiscard]] MemorySource source(const std::string& membership) const {
    return {.cgroup = {.membership = membership, .mount = (folder_ / "cgroup").string()},
            .proc = (folder_ / "proc").string()};
  }
  [[nodiscard]] MemoryState read(const std::string& membership) const {
    return read_memory_state(source(membership));
  }

 private:
  TemporaryDirectory folder_;
};

constexpr const char* kEvents = "low 0\nhigh 0\nmax 812\noom 3\noom_kill 2\noom_group_kill 0\n";

}  // namespace

TEST_CASE("version 2 counts kills in memory.events", "[memory]") {
  const FakeKernel kernel;
  kernel.write("cgroup/jobs/a/memory.events", kEvents);
  kernel.write("cgroup/jobs/a/memory.max", "max\n");
  kernel.write("cgroup/jobs/memory.events", "oom_kill 99\n");
  kernel.write("cgroup/jobs/memory.max", "1073741824\n");
  CHECK(kernel.read("0::/jobs/a\n") == MemoryState{2, 1073741824});
}

TEST_CASE("the tightest limit on the way to the root holds", "[memory]") {
  const FakeKernel kernel;
  kernel.write("cgroup/jobs/a/memory.events", kEvents);
  kernel.write("cgroup/jobs/a/memory.max", "500\n");
  kernel.write("cgroup/jobs/memory.max", "1000\n");
  CHECK(kernel.read("0::/jobs/a\n").limit_bytes == 500);
  kernel.write("cgroup/jobs/memory.max", "100\n");
  CHECK(kernel.read("0::/jobs/a\n").limit_bytes == 100);
}

TEST_CASE("version 1 counts kills in memory.oom_control", "[memory]") {
  const FakeKernel kernel;
  kernel.write("cgroup/memory/jobs/memory.oom_control",
               "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
  kernel.write("cgroup/memory/jobs/memory.limit_in_bytes", "2048\n");
  kernel.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string membership = "9:name=systemd:/\n5:cpu,cpuacct:/x\n4:memory:/jobs\n0::/\n";
  CHECK(kernel.read(membership) == MemoryState{7, 2048});
}

TEST_CASE("a container's own group is the mount, whatever path it is told", "[memory]") {
  const FakeKernel kernel;
  kernel.write("cgroup/memory.events", kEvents);
  kernel.write("cgroup/memory.max", "4096\n");
  CHECK(kernel.read("0::/docker/0123abcd\n") == MemoryState{2, 4096});
  CHECK(kernel.read("0::/\n") == MemoryState{2, 4096});
}

TEST_CASE("without control groups the machine's own counters are read", "[memory]") {
  const FakeKernel kernel;
  kernel.write("proc/vmstat", "pgfault 1\noom_kill 5\nswap_ra 0\n");
  kernel.write("proc/meminfo", "MemTotal:       16 kB\nMemFree: 8 kB\n");
  CHECK(kernel.read("") == MemoryState{5, 16384});
  CHECK(kernel.read("0::/nowhere\nnonsense\n::\n") == MemoryState{5, 16384});
}

TEST_CASE("without readable counters nothing is claimed", "[memory]") {
  const FakeKernel kernel;
  CHECK(kernel.read("0::/\n") == MemoryState{0, std::nullopt});
  kernel.write("cgroup/memory.events", "garbage\noom_kill many\n");
  kernel.write("cgroup/memory.max", "plenty\n");
  CHECK(kernel.read("0::/\n") == MemoryState{0, std::nullopt});
}

TEST_CASE("an old kill by the kernel does not explain a new end", "[memory]") {
  const FakeKernel kernel;
  kernel.write("cgroup/memory.events", "oom_kill 2\n");
  PostMortem post_mortem(kernel.source("0::/\n"));
  const auto is_explained = [&] {
    const Ending ending{.rank = 0, .pid = 1, .status = W_EXITCODE(0, SIGKILL)};
    return post_mortem.examine(ending, {}, "").out_of_memory.has_value();
  };
  CHECK_FALSE(is_explained());
  kernel.write("cgroup/memory.events", "oom_kill 3\n");
  CHECK(is_explained());
  post_mortem.look();  // perhaps just before the launcher hears of the end
  CHECK(is_explained());
  post_mortem.look();
  CHECK_FALSE(is_explained());
}

TEST_CASE("a kill by the kernel is distinguished from one by a user", "[memory]") {
  const MemoryState before{2, 1024};
  const MemoryState after{3, 1024};
  const int by_kill = W_EXITCODE(0, SIGKILL);
  CHECK(find_out_of_memory(by_kill, before, after) == OutOfMemory{0, 1024});
  CHECK_FALSE(find_out_of_memory(by_kill, before, before));
  CHECK(find_out_of_memory(W_EXITCODE(128 + SIGKILL, 0), before, after));
  CHECK_FALSE(find_out_of_memory(W_EXITCODE(1, 0), before, after));
  CHECK_FALSE(find_out_of_memory(W_EXITCODE(0, SIGSEGV), before, after));
}
