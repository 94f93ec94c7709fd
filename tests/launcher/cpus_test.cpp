// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <filesystem>

#include "launcher/placement/cpu_binding.h"
#include "support/files.h"
#include "support/run_ranks.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;
using Strings = std::vector<std::string>;

namespace {

// A folder with the layout of /sys.
class FakeSysfs {
 public:
  [[nodiscard]] std::string path() const { return folder_.path().string(); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    ddp::test::write_bytes(folder_ / file, text + "\n");
  }

 private:
  TemporaryDirectory folder_;
};

// Two nodes of four cores with two hyperthreads each, numbered as Intel's are: 0-3,8-11 and
// 4-7,12-15.
void write_two_nodes(const FakeSysfs& sysfs) {
  sysfs.write("devices/system/node/online", "0-1");
  sysfs.write("devices/system/node/node0/cpulist", "0-3,8-11");
  sysfs.write("devices/system/node/node1/cpulist", "4-7,12-15");
  for (int cpu = 0; cpu < 16; ++cpu) {
    sysfs.write("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                std::to_string(cpu % 8) + "," + std::to_string(cpu % 8 + 8));
  }
}

CpuTopology two_nodes(const std::string& allowed = "0-15") {
  const FakeSysfs sysfs;
  write_two_nodes(sysfs);
  return read_topology(sysfs.path(), parse_cpu_list(allowed));
}

Strings texts(const std::vector<CpuList>& lists) {
  Strings all;
  for (const CpuList& list : lists) all.push_back(to_string(list));
  return all;
}

}  // namespace

TEST_CASE("lists of CPUs are read and written as the kernel does", "[cpus]") {
  CHECK(parse_cpu_list("0-3,8") == CpuList{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("5") == CpuList{5});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("x").empty());
  CHECK(to_string(CpuList{0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(to_string(CpuList{}).empty());
  CHECK(affinity_mask({0, 63, 64, 130}) == std::vector<unsigned long>{1UL | 1UL << 63, 1, 4});
}

TEST_CASE("the topology holds the CPUs that may be used", "[cpus]") {
  const CpuTopology topology = two_nodes("2-5,10");
  CHECK(to_string(topology.all()) == "2-5,10");
  CHECK(topology.nodes() == std::vector<int>{0, 1});
  CHECK(to_string(topology.on_node(0)) == "2-3,10");
  CHECK(topology.cpus.back().core == 2);
}

TEST_CASE("without information, a machine has one node and one core per CPU", "[cpus]") {
  const FakeSysfs empty;
  const CpuTopology topology = read_topology(empty.path(), {0, 1, 5});
  CHECK(topology.nodes() == std::vector<int>{0});
  CHECK(texts(bind_to_cores(topology, 3)) == Strings{"0", "1", "5"});
}

TEST_CASE("workers share cores contiguously, hyperthreads together, node by node", "[cpus]") {
  CHECK(texts(bind_to_cores(two_nodes(), 1)) == Strings{"0-15"});
  CHECK(texts(bind_to_cores(two_nodes(), 2)) == Strings{"0-3,8-11", "4-7,12-15"});
  CHECK(texts(bind_to_cores(two_nodes(), 4)) ==
        Strings{"0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"});
  CHECK(texts(bind_to_cores(two_nodes(), 3)) == Strings{"0-1,8-9", "2-4,10-12", "5-7,13-15"});
}

TEST_CASE("more workers than cores get hyperthreads, and more than those are refused", "[cpus]") {
  CHECK(texts(bind_to_cores(two_nodes("0,1,8,9"), 4)) == Strings{"0", "8", "1", "9"});
  CHECK(texts(bind_to_cores(two_nodes("0,1,8,9"), 3)) == Strings{"0", "8", "1,9"});
  CHECK_THAT(
      error_of([] { static_cast<void>(bind_to_cores(two_nodes("0,1,8,9"), 5)); }),
      Contains("5 workers need CPUs of their own, but may use 4 (0-1,8-9)") && Contains("-n 4"));
}

TEST_CASE("workers of a node share its CPUs", "[cpus]") {
  CHECK(texts(bind_to_nodes(two_nodes(), {1, 1, 0, std::nullopt})) ==
        Strings{"4-7,12-15", "4-7,12-15", "0-3,8-11", "0-15"});
  CHECK_THAT(error_of([] {
               static_cast<void>(bind_to_nodes(two_nodes("0-3"), {0, 1}));
             }),
             Contains("the GPU of local rank 1 is on NUMA node 1") && Contains("(0-3)"));
}

TEST_CASE("the node of a device is found if the machine knows it", "[cpus]") {
  const FakeSysfs sysfs;
  sysfs.write("bus/pci/devices/0000:1a:00.0/numa_node", "1");
  sysfs.write("bus/pci/devices/0000:1b:00.0/numa_node", "-1");
  CHECK(node_of_device(sysfs.path(), "0000:1a:00.0") == 1);
  CHECK_FALSE(node_of_device(sysfs.path(), "0000:1b:00.0"));
  CHECK_FALSE(node_of_device(sysfs.path(), "0000:1c:00.0"));
  CHECK_FALSE(node_of_device(sysfs.path(), ""));
}
