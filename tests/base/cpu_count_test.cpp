// SPDX-License-Identifier: MIT
#include "ddp/base/system/cpu_count.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "support/files.h"
#include "support/grouping_locale.h"

using namespace ddp;

TEST_CASE("the tightest CPU quota up the control-group tree counts", "[cpu]") {
  const ddp::test::TemporaryDirectory folder;
  const auto write = [&folder](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder / file).parent_path());
    ddp::test::write_bytes(folder / file, text);
  };
  const std::string mount = folder.path().string();
  SECTION("version 2") {
    const CgroupSource source{"0::/a/b\n", mount};
    CHECK_FALSE(cpu_quota(source));
    write("a/b/cpu.max", "max 100000\n");
    CHECK_FALSE(cpu_quota(source));
    write("a/cpu.max", "250000 100000\n");
    CHECK(cpu_quota(source) == 2.5);
    write("cpu.max", "150000 50000\n");
    CHECK(cpu_quota(source) == 2.5);
  }
  SECTION("version 1, where a container sees a path that is not mounted for it") {
    const CgroupSource source{"4:memory:/m\n3:cpu,cpuacct:/docker/f00\n", mount};
    write("cpu/cpu.cfs_quota_us", "-1\n");
    write("cpu/cpu.cfs_period_us", "100000\n");
    CHECK_FALSE(cpu_quota(source));
    write("cpu/cpu.cfs_quota_us", "400000\n");
    CHECK(cpu_quota(source) == 4.0);
  }
  SECTION("in a program whose locale groups digits") {
    const ddp::test::GroupingLocale locale;
    write("cpu.max", "250000 100000\n");
    CHECK(cpu_quota({"0::/\n", mount}) == 2.5);
    write("cpu/cpu.cfs_quota_us", "400000\n");
    write("cpu/cpu.cfs_period_us", "100000\n");
    CHECK(cpu_quota({"3:cpu:/\n", mount}) == 4.0);
  }
  SECTION("nonsense is no quota") {
    CHECK_FALSE(cpu_quota({"", mount}));
    CHECK_FALSE(cpu_quota({"no colons\n0:\n::\n", mount}));
    write("cpu.max", "lots\n");
    CHECK_FALSE(cpu_quota({"0::/\n", mount}));
  }
}

TEST_CASE("usable CPUs are those of the affinity mask within the quota", "[cpu]") {
  CHECK(usable_cpus(8, std::nullopt) == 8);
  CHECK(usable_cpus(8, 2.9) == 2);
  CHECK(usable_cpus(8, 64.0) == 8);
  CHECK(usable_cpus(8, 0.5) == 1);
  CHECK(usable_cpus() >= 1);
  CHECK_FALSE(affinity_cpus().empty());
  CHECK(std::ranges::is_sorted(affinity_cpus()));
}

TEST_CASE("each worker has its share of the CPUs, at least one", "[cpu]") {
  CHECK(cpus_per_worker(8, 3) == 2);
  CHECK(cpus_per_worker(8, 16) == 1);
}
