// SPDX-License-Identifier: MIT
#include "ddp/collectives/equal_on_all_ranks.h"

#include <catch2/catch.hpp>

#include <vector>

#include "ddp/base/error.h"
#include "support/groups.h"

using namespace ddp;
using test::expect;

namespace {

using Values = std::vector<NamedValue>;

// The error that all ranks throw if these are their values; empty if none throws.
std::string mismatch_of(Backend backend, const std::vector<Values>& values) {
  std::vector<std::string> errors(values.size());
  test::run_groups(backend, static_cast<int>(values.size()), [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    try {
      check_equal_on_all_ranks(group, "[x] jobs", values[rank]);
    } catch (const MismatchError& error) {
      errors[rank] = error.what();
    }
  });
  for (const std::string& error : errors) expect(error == errors[0], error + " = " + errors[0]);
  return errors[0];
}

}  // namespace

TEST_CASE("equal values cause no error", "[equal]") {
  const Values values = {{"lr", "0.1"}, {"seed", ""}};
  for (const Backend backend : test::backends()) {
    CHECK(mismatch_of(backend, {values, values, values}).empty());
  }
  CHECK(mismatch_of(Backend::kShm, {values}).empty());
  CHECK(mismatch_of(Backend::kShm, {{}, {}}).empty());
}

TEST_CASE("all ranks name the first difference and its ranks", "[equal]") {
  const Values values = {{"lr", "0.1"}, {"seed", "7"}, {"name", "x"}};
  const Values other = {{"lr", "0.1"}, {"seed", "8"}, {"name", "y"}};
  const Values third = {{"lr", "0.2"}, {"seed", "7"}, {"name", "x"}};
  for (const Backend backend : test::backends()) {
    CHECK(mismatch_of(backend, {values, values, other}) ==
          "[x] jobs differ in seed: rank 0 has 7, rank 2 has 8");
    CHECK(mismatch_of(backend, {values, other, third, other}) ==
          "[x] jobs differ in seed: rank 0 has 7, ranks 1, 3 have 8");
  }
}

TEST_CASE("values that only some ranks have are named", "[equal]") {
  const Values values = {{"lr", "0.1"}, {"seed", "7"}};
  const Values fewer = {{"lr", "0.1"}};
  const Values others = {{"lr", "0.1"}, {"epochs", "7"}};
  CHECK(mismatch_of(Backend::kShm, {values, fewer}) ==
        "[x] jobs differ: rank 0 has seed 7, rank 1 has nothing");
  CHECK(mismatch_of(Backend::kShm, {fewer, values}) ==
        "[x] jobs differ: rank 0 has nothing, rank 1 has seed 7");
  CHECK(mismatch_of(Backend::kShm, {values, others}) ==
        "[x] jobs differ: rank 0 has seed 7, rank 1 has epochs 7");
}

TEST_CASE("a group that has found a difference may compare again", "[equal]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    for (const std::string value : {"a", "b", "a"}) {
      const Values own = {{"name", group.rank() == 0 ? "x" : value}};
      const std::string error =
          test::error_of([&] { check_equal_on_all_ranks(group, "[x] jobs", own); });
      expect(error == "[x] jobs differ in name: rank 0 has x, rank 1 has " + value, error);
    }
    check_equal_on_all_ranks(group, "[x] jobs", Values{{"name", "x"}});
  });
}

// As in a configuration that is compared as a whole.
TEST_CASE("values may have several lines", "[equal]") {
  const Values one = {{"config", "{\n  lr: 1\n}"}, {"path", "C:\\new"}};
  const Values other = {{"config", "{\n  lr: 2\n}"}, {"path", "C:\\new"}};
  CHECK(mismatch_of(Backend::kShm, {one, one}).empty());
  CHECK(mismatch_of(Backend::kShm, {one, other}) ==
        R"([x] jobs differ in config: rank 0 has {\n  lr: 1\n}, rank 1 has {\n  lr: 2\n})");
  const Values two = {{"a", "b"}, {"c", "d"}};
  const Values joined = {{"a", "b\nc\nd"}};
  CHECK(mismatch_of(Backend::kShm, {two, joined}) ==
        R"([x] jobs differ in a: rank 0 has b, rank 1 has b\nc\nd)");
}
