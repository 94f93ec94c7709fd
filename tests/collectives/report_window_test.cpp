// SPDX-License-Identifier: MIT
//
// Finding the rank that keeps a job waiting: which rank may report it, and how often.
#include "ddp/collectives/hang/report_window.h"

#include <catch2/catch.hpp>
#include <memory>

#include "ddp/store/hash_store.h"
#include "support/becomes_true.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::becomes_true;

TEST_CASE("only one rank reports at a time, and only once per window", "[hang]") {
  const auto store = std::make_shared<HashStore>();
  constexpr Timeout kLong = 1h;
  ReportWindow first(store, 0, kLong);
  ReportWindow second(store, 1, kLong);
  CHECK_FALSE(second.may_report());  // it does not lead
  CHECK(first.lead());
  CHECK(first.may_report());
  CHECK_FALSE(first.may_report());
  second.look();
  CHECK_FALSE(second.lead());
  CHECK(first.lead());
}

TEST_CASE("a reporter that stopped is replaced after a window, and notices this", "[hang]") {
  const auto store = std::make_shared<HashStore>();
  constexpr Timeout kWindow = 50ms;
  ReportWindow first(store, 0, kWindow);
  ReportWindow second(store, 1, kWindow);
  REQUIRE(first.lead());
  REQUIRE(first.may_report());
  const auto seen = Clock::now();
  second.look();
  CHECK(becomes_true([&] {
    second.look();
    return second.lead();
  }));
  CHECK(Clock::now() - seen >= kWindow);
  CHECK(second.may_report());
  CHECK_FALSE(first.may_report());
  first.look();
  CHECK_FALSE(first.lead());
}

TEST_CASE("a report without the store keeps its distance from those before and after", "[hang]") {
  const auto store = std::make_shared<HashStore>();
  constexpr Timeout kLong = 1h;
  ReportWindow first(store, 0, kLong);
  ReportWindow second(store, 1, kLong);
  SECTION("after another rank's report there is none") {
    REQUIRE(first.lead());
    REQUIRE(first.may_report());
    second.look();
    CHECK_FALSE(second.may_report_without_store());
  }
  SECTION("once the store answers again, the others hear of it") {
    REQUIRE(first.lead());
    CHECK(second.may_report_without_store());
    CHECK_FALSE(second.may_report_without_store());
    second.look();
    CHECK_FALSE(first.may_report());
    first.look();
    CHECK_FALSE(first.lead());
  }
}
