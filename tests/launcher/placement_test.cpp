// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "launcher/placement/gpu_list.h"
#include "launcher/placement/placement.h"
#include "launcher/placement/worker_count.h"
#include "launcher/plan/environment.h"
#include "support/files.h"
#include "support/run_ranks.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;
using Binding = PlacementOptions::Binding;
using Strings = std::vector<std::string>;

namespace {

// Eight GPUs, the last one cut into two instances.
GpuInventory eight_gpus() {
  GpuInventory inventory;
  for (int i = 0; i < 8; ++i) {
    const std::string digit = std::to_string(i);
    inventory.gpus.push_back(
        {.uuid = "GPU-" + digit + digit, .bus_id = "0000:1" + digit + ":00.0"});
  }
  inventory.gpus[7].mig = {"MIG-x1", "MIG-x2"};
  return inventory;
}

Machine machine(std::optional<std::string> visible = std::nullopt) {
  Machine result;
  result.find_gpus = eight_gpus;
  result.cuda_visible_devices = std::move(visible);
  result.usable_cpus = 8;
  result.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  result.sysfs = "/nonexistent";
  return result;
}

Machine machine_without_gpus() {
  Machine result = machine();
  result.find_gpus = [] { return GpuInventory{{}, "no driver"}; };
  return result;
}

// The placements that result from --gpus on a machine.
Placements place(const PlacementOptions& options, int workers, Machine on) {
  static_cast<void>(choose_gpus(options, on));
  return place_workers(options, workers, on, DeviceNames::kNeeded);
}

std::string refusal(const PlacementOptions& options, int workers, const Machine& on) {
  return error_of([&] { static_cast<void>(place(options, workers, on)); });
}

Strings devices(const Placements& placements) {
  Strings names;
  for (const Placement& each : placements.by_local_rank) names.push_back(each.device);
  return names;
}

Strings cpus(const Placements& placements) {
  Strings lists;
  for (const Placement& each : placements.by_local_rank) lists.push_back(to_string(each.cpus));
  return lists;
}

std::vector<int> threads(const Placements& placements) {
  std::vector<int> all;
  for (const Placement& each : placements.by_local_rank)
    all.push_back(each.omp_threads.value_or(0));
  return all;
}

// The value of the last variable with this name, which is the one that a worker sees.
std::string variable(const Placement& placement, const std::string& name) {
  WorkerPlan plan;
  plan.environment = {"CUDA_VISIBLE_DEVICES=5"};
  plan.placements = {placement};
  for (const std::string& entry : worker_environment(plan, {}, {}, 0)) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

PlacementOptions chosen(Strings gpus) {
  PlacementOptions options;
  options.gpus = std::move(gpus);
  return options;
}

PlacementOptions bound(Binding binding) {
  PlacementOptions options;
  options.binding = binding;
  return options;
}

PlacementOptions shared(PlacementOptions options) {
  options.oversubscribe = true;
  return options;
}

}  // namespace

TEST_CASE("a local rank is an index into CUDA_VISIBLE_DEVICES", "[placement]") {
  CHECK(devices(place({}, 2, machine("2,7"))) == Strings{"GPU 2", "GPU 7"});
  CHECK(devices(place({}, 3, machine("2,GPU-33"))) == Strings{"GPU 2", "GPU 3", "-"});
  CHECK(devices(place({}, 2, machine())) == Strings{"GPU 0", "GPU 1"});
  CHECK(devices(place({}, 2, machine(""))) == Strings{"-", "-"});
  CHECK(devices(place({}, 1, machine("MIG-x2"))) == Strings{"MIG-x2"});
  CHECK(devices(place({}, 2, machine_without_gpus())) == Strings{"-", "-"});
  CHECK(variable(place({}, 2, machine("2,7")).by_local_rank[0], "CUDA_DEVICE_ORDER").empty());
}

TEST_CASE("--gpus sets the list that workers see, in PCI order", "[placement]") {
  const Placements placements = place(chosen({"2", "7"}), 2, machine());
  CHECK(devices(placements) == Strings{"GPU 2", "GPU 7"});
  for (const Placement& each : placements.by_local_rank) {
    CHECK(variable(each, "CUDA_VISIBLE_DEVICES") == "2,7");
    CHECK(variable(each, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
  }
}

TEST_CASE("--gpus takes UUIDs, abbreviated or mixed with indices", "[placement]") {
  const Placements placements = place(chosen({"GPU-3", "1"}), 2, machine());
  CHECK(devices(placements) == Strings{"GPU 3", "GPU 1"});
  CHECK(variable(placements.by_local_rank[0], "CUDA_VISIBLE_DEVICES") == "GPU-33,GPU-11");
}

TEST_CASE("--gpus overrides CUDA_VISIBLE_DEVICES and says so", "[placement]") {
  Machine on = machine("0,1");
  CHECK(choose_gpus(chosen({"2", "7"}), on) == "--gpus=2,7 overrides CUDA_VISIBLE_DEVICES=0,1");
  CHECK(on.cuda_visible_devices == "2,7");
  Machine free = machine();
  CHECK(choose_gpus(chosen({"2"}), free).empty());
  CHECK(choose_gpus({}, free).empty());
}

TEST_CASE("the GPUs of --gpus are counted", "[placement]") {
  Machine on = machine("0");
  static_cast<void>(choose_gpus(chosen({"2", "7", "5"}), on));
  CHECK(decide_worker_count({WorkerRequest::Kind::kGpu, 0}, on).workers == 3);
}

TEST_CASE("a wrong --gpus is refused with a list of the GPUs", "[placement]") {
  CHECK_THAT(refusal(chosen({"0", "8"}), 2, machine()),
             Contains("--gpus: 8 does not name a GPU; this host has 0 GPU-00, 1 GPU-11, ") &&
                 Contains("7 GPU-77 MIG-x1 MIG-x2"));
  CHECK_THAT(refusal(chosen({"GPU-x"}), 1, machine()), Contains("GPU-x does not name a GPU"));
  CHECK_THAT(refusal(chosen({"GPU-"}), 1, machine()), Contains("GPU- does not name a GPU"));
  CHECK_THAT(refusal(chosen({"0", "GPU-00"}), 2, machine()), Contains("GPU-00 is named twice"));
  CHECK_THAT(refusal(chosen({"0"}), 1, machine_without_gpus()),
             Contains("this host has none: no driver"));
}

TEST_CASE("fewer GPUs than workers are refused, unless workers may share", "[placement]") {
  CHECK_THAT(refusal(chosen({"2", "7"}), 3, machine()),
             Contains("--gpus: 2 for 3 workers") && Contains("--oversubscribe"));
  CHECK(devices(place(shared(chosen({"2", "7"})), 3, machine())) ==
        Strings{"GPU 2", "GPU 7", "GPU 2"});
  CHECK(devices(place(shared({}), 2, machine("4"))) == Strings{"GPU 4", "GPU 4"});
  CHECK(devices(place(chosen({"2", "7"}), 1, machine())) == Strings{"GPU 2"});
}

TEST_CASE("each worker on a MIG instance sees only its own", "[placement]") {
  const PlacementOptions options = chosen({"MIG-x1", "MIG-x2"});
  CHECK_THAT(refusal(options, 2, machine()), Contains("2 workers need --oversubscribe"));
  const Placements placements = place(shared(options), 2, machine());
  CHECK(devices(placements) == Strings{"MIG-x1", "MIG-x2"});
  CHECK(variable(placements.by_local_rank[1], "CUDA_VISIBLE_DEVICES") == "MIG-x2");
  CHECK(devices(place(chosen({"MIG-x2"}), 1, machine())) == Strings{"MIG-x2"});
}

TEST_CASE("workers that are not bound may run anywhere", "[placement]") {
  const Placements placements = place({}, 2, machine());
  CHECK(cpus(placements) == Strings{"", ""});
  CHECK(threads(placements) == std::vector<int>{0, 0});
  CHECK(describe_placement(placements.by_local_rank[1]) == ", GPU 1");
}

TEST_CASE("bound workers get as many threads as CPUs, within the quota", "[placement]") {
  Machine on = machine();
  const Placements placements = place(bound(Binding::kCore), 3, on);
  CHECK(cpus(placements) == Strings{"0-1", "2-4", "5-7"});
  CHECK(threads(placements) == std::vector<int>{2, 3, 3});
  CHECK(variable(placements.by_local_rank[1], "OMP_NUM_THREADS") == "3");
  CHECK(describe_placement(placements.by_local_rank[0]) == ", GPU 0, CPUs 0-1");
  on.usable_cpus = 4;
  CHECK(threads(place(bound(Binding::kCore), 2, on)) == std::vector<int>{2, 2});
  CHECK(threads(place(bound(Binding::kCore), 8, on)) == std::vector<int>(8, 1));
}

TEST_CASE("workers are bound to the memory node of their GPU", "[placement]") {
  const TemporaryDirectory sysfs;
  const auto write = [&sysfs](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((sysfs / file).parent_path());
    ddp::test::write_bytes(sysfs / file, text + "\n");
  };
  write("devices/system/node/online", "0-1");
  write("devices/system/node/node0/cpulist", "0-3");
  write("devices/system/node/node1/cpulist", "4-7");
  write("bus/pci/devices/0000:12:00.0/numa_node", "1");
  write("bus/pci/devices/0000:13:00.0/numa_node", "1");
  write("bus/pci/devices/0000:14:00.0/numa_node", "0");
  write("bus/pci/devices/0000:15:00.0/numa_node", "-1");
  Machine on = machine("2,3,4,5");
  on.sysfs = sysfs.path();
  SECTION("which two may share") {
    const Placements placements = place(bound(Binding::kNuma), 3, on);
    CHECK(cpus(placements) == Strings{"4-7", "4-7", "0-3"});
    CHECK(threads(placements) == std::vector<int>{2, 2, 4});
    CHECK(placements.remarks.empty());
  }
  SECTION("or to none if it is not known, which is said") {
    const Placements placements = place(bound(Binding::kNuma), 4, on);
    CHECK(cpus(placements)[3] == "0-7");
    REQUIRE(placements.remarks.size() == 1);
    CHECK_THAT(placements.remarks[0], Contains("the NUMA node of GPU 5 is not known"));
  }
  SECTION("or in turns, without GPUs") {
    on.cuda_visible_devices = "";
    CHECK(cpus(place(bound(Binding::kNuma), 3, on)) == Strings{"0-3", "4-7", "0-3"});
  }
  SECTION("unless the job may not use that node") {
    on.allowed_cpus = {0, 1};
    CHECK_THAT(refusal(bound(Binding::kNuma), 1, on), Contains("is on NUMA node 1"));
  }
}

TEST_CASE("NVML is used only if its answer matters", "[placement]") {
  Machine silent = machine();
  silent.find_gpus = []() -> GpuInventory { throw std::logic_error("NVML was asked"); };
  CHECK(place_workers({}, 2, silent, DeviceNames::kNotNeeded).by_local_rank.size() == 2);
  CHECK(place_workers(bound(Binding::kCore), 2, silent, DeviceNames::kNotNeeded)
            .by_local_rank.size() == 2);
}

TEST_CASE("workers that share GPUs on several hosts do not meet on loopback", "[placement]") {
  WorkerPlan plan;
  plan.oversubscribe = true;
  JobLayout layout;
  const auto names_loopback = [&] {
    const EnvironmentBlock block = worker_environment(plan, layout, {}, 0);
    return std::ranges::find(block, "NCCL_SOCKET_IFNAME=lo") != block.end();
  };
  CHECK(names_loopback());
  layout.on_one_host = false;
  CHECK_FALSE(names_loopback());
}
