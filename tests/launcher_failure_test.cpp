// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <string>

#include "launcher/failure.h"

using namespace ddp::launcher;

namespace {

Failure sample() {
  Failure failure;
  failure.first = {.rank = 3, .pid = 4711, .status = 9};
  failure.others = 7;
  failure.after = std::chrono::duration<double>(12.5);
  failure.host = "node-b";
  failure.message = "cannot open \"x\":\n\tNo such file";
  failure.step = 457;
  failure.caused_by_peer = true;
  failure.out_of_memory = {.resident_bytes = 61LL << 30, .limit_bytes = 64LL << 30};
  failure.hint = "a hint";
  failure.last_lines = {"one", "", "tab\tand \\ \x01"};
  failure.log_file = "/logs/3/stderr.log";
  return failure;
}

}  // namespace

TEST_CASE("a failure travels as one line of text", "[failure]") {
  const Failure sent = sample();
  const std::string text = to_json(sent);
  CHECK(text.find('\n') == std::string::npos);
  const auto got = failure_from_json(text);
  REQUIRE(got);
  CHECK(got->first.rank == 3);
  CHECK(got->first.pid == 4711);
  CHECK(got->first.status == 9);
  CHECK(got->others == 7);
  CHECK(got->after == sent.after);
  CHECK(got->host == sent.host);
  CHECK(got->message == sent.message);
  CHECK(got->step == 457);
  CHECK(got->caused_by_peer);
  CHECK(got->out_of_memory == sent.out_of_memory);
  CHECK(got->hint == sent.hint);
  CHECK(got->last_lines == sent.last_lines);
  CHECK(got->log_file == sent.log_file);
}

TEST_CASE("what is not known of a failure stays unknown", "[failure]") {
  const auto got = failure_from_json(to_json(Failure{}));
  REQUIRE(got);
  CHECK_FALSE(got->step);
  CHECK_FALSE(got->out_of_memory);
  CHECK_FALSE(got->caused_by_peer);
  CHECK(got->message.empty());
  CHECK(got->last_lines.empty());
}

TEST_CASE("what a worker writes in no known encoding can be told all the same", "[failure]") {
  Failure failure;
  failure.last_lines = {"\xff\xfe latin-1: \xe4"};
  const auto got = failure_from_json(to_json(failure));
  REQUIRE(got);
  CHECK(got->last_lines.at(0).find("latin-1") != std::string::npos);
}

TEST_CASE("a text that is no failure is told from one", "[failure]") {
  for (const std::string text :
       {"", "{", "[]", "null", "{}", "{\"rank\": 1}", "\xff", R"({"rank": "three"})"}) {
    CAPTURE(text);
    CHECK_FALSE(failure_from_json(text));
  }
  std::string text = to_json(sample());
  text.resize(text.size() / 2);
  CHECK_FALSE(failure_from_json(text));
}
