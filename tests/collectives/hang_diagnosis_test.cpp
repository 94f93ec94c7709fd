// SPDX-License-Identifier: MIT
//
// Finding the rank that keeps a job waiting: the sentence about it, from what the ranks publish.
#include "ddp/collectives/hang/hang_diagnosis.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/rank_progress.h"
#include "support/collective_calls.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::all_reduce;

namespace {

// The hang in the tests below: the ranks wait in the seventh collective of their group.
Hang hang() {
  return {.group = "default",
          .operation = "all_reduce #7 (bucket 1: fc.*)",
          .signature = signature_of(all_reduce(), 7),
          .age = 10s};
}

// Ranks that have submitted these numbers of collectives.
std::vector<Witness> witnesses(const std::vector<std::uint64_t>& submitted) {
  std::vector<Witness> members;
  for (const std::uint64_t collectives : submitted) {
    const int rank = static_cast<int>(members.size());
    RankProgress progress{
        .who = {.rank = rank, .host_name = "node", .pid = 100 + rank, .device = "cpu"},
        .step = 50,
        .is_in_step = true,
        .groups = {{"default", collectives, ""}}};
    members.push_back({.rank = rank, .progress = progress, .state = ProcessState::kAlive});
  }
  return members;
}

}  // namespace

TEST_CASE("the rank that has not joined is named with its last position and state", "[hang]") {
  CHECK(diagnose(hang(), witnesses({7, 7, 6})) ==
        "rank 2 (node, pid 102, cpu) has not joined all_reduce #7 (bucket 1: fc.*); last seen in "
        "step 50, outside the library; 2 ranks waiting 10.0 s");
}

TEST_CASE("where a rank was last seen tells whether its step has ended", "[hang]") {
  RankProgress progress = *witnesses({7})[0].progress;
  progress.is_in_step = false;
  CHECK(last_seen(progress) == "last seen after step 50, outside the library");
  progress.has_left_step = true;
  CHECK(last_seen(parse_rank_progress(serialize(progress))) ==
        "last seen after it left the middle of step 50, outside the library");
}

TEST_CASE("what a rank is busy with outside the library is told", "[hang]") {
  RankProgress progress = *witnesses({7})[0].progress;
  progress.busy_with = "saving ck/model_epoch_2.safetensors for 5.1 s";
  const RankProgress told = parse_rank_progress(serialize(progress));
  CHECK(last_seen(told) ==
        "last seen in step 50, outside the library, saving ck/model_epoch_2.safetensors for 5.1 s");
  progress.is_inside = true;
  CHECK(last_seen(progress) == "last seen in step 50, inside the library");
}

TEST_CASE("the step that waits is named, since what was last seen may be steps behind", "[hang]") {
  Hang in_step = hang();
  in_step.step = 90;
  CHECK_THAT(diagnose(in_step, witnesses({7, 7, 6})),
             Catch::EndsWith("last seen in step 50, outside the library; 2 ranks waiting 10.0 s "
                             "in step 90"));
}

TEST_CASE("what was last seen of a rank that tells nothing any more has its age", "[hang]") {
  std::vector<Witness> members = witnesses({7, 7, 6});
  members[2].state = ProcessState::kStopped;
  members[2].told_before = 10800ms;
  CHECK_THAT(diagnose(hang(), members),
             Catch::Contains("is stopped (SIGSTOP) and has not joined") &&
                 Catch::EndsWith("; last seen in step 50, outside the library, 10.8 s ago; 2 ranks "
                                 "waiting 10.0 s"));
}

TEST_CASE("only the ranks that are furthest behind are blamed", "[hang]") {
  const std::string text = diagnose(hang(), witnesses({7, 6, 5, 5}));
  CHECK_THAT(text, Catch::StartsWith("rank 2 (node, pid 102, cpu) has not joined"));
  CHECK_THAT(text, Catch::Contains("; the same holds for rank 3; last seen"));
  CHECK_THAT(text, Catch::EndsWith("2 ranks waiting 10.0 s"));
}

TEST_CASE("of ranks that are equally far behind, the lost one is blamed alone", "[hang]") {
  std::vector<Witness> members = witnesses({7, 7, 6, 6});
  const std::size_t lost = GENERATE(2U, 3U);
  if (GENERATE(false, true)) {
    members[lost].state = ProcessState::kEnded;
  } else {
    members[lost].state = ProcessState::kUnknown;
    members[lost].silence = 12s;
  }
  const std::string text = diagnose(hang(), members);
  CHECK_THAT(text, Catch::StartsWith("rank " + std::to_string(lost)));
  CHECK_THAT(text, !Catch::Contains("the same holds"));
  CHECK_THAT(text, Catch::EndsWith("2 ranks waiting 10.0 s"));
}

TEST_CASE("stopped, ended and silent processes are distinguished from late ones", "[hang]") {
  std::vector<Witness> members = witnesses({7, 7, 6});
  const auto text = [&] { return diagnose(hang(), members); };
  members[2].state = ProcessState::kEnded;
  CHECK_THAT(text(), Catch::Contains("rank 2 (node, pid 102, cpu) has ended and will not join"));
  members[2].state = ProcessState::kUnknown;
  members[2].silence = 12s;
  CHECK_THAT(text(), Catch::Contains("has given no sign of life for 12.0 s and has not joined"));
  members[2].progress.reset();
  CHECK_THAT(text(), Catch::StartsWith("rank 2 has given no sign of life") &&
                         Catch::Contains("; it has not reported anything yet;"));
  members[1].state = ProcessState::kStopped;  // has submitted, but is not done
  CHECK_THAT(text(), Catch::StartsWith("rank 1 (node, pid 101, cpu) is stopped (SIGSTOP) in "
                                       "all_reduce #7"));
}

TEST_CASE("a rank that has only lost the store is not blamed in place of one that is late",
          "[hang]") {
  std::vector<Witness> members = witnesses({7, 2, 6});
  members[1].silence = 12s;  // may have submitted more since
  CHECK_THAT(diagnose(hang(), members), Catch::StartsWith("rank 2 (node, pid 102, cpu) has not "));
  members[2].progress->groups[0].collectives = 7;
  CHECK_THAT(diagnose(hang(), members),
             Catch::StartsWith("rank 1 (node, pid 101, cpu) runs, but has told nothing for 12.0 s, "
                               "as if it had lost the store; it may not have joined all_reduce "
                               "#7"));
}

TEST_CASE("if all ranks have joined, no rank is blamed", "[hang]") {
  std::vector<Witness> members = witnesses({7, 8});
  CHECK(diagnose(hang(), members) ==
        "all ranks have joined all_reduce #7 (bucket 1: fc.*), which does not end; 2 ranks waiting "
        "10.0 s");
  members[1].progress->who.host = "another";
  CHECK_THAT(diagnose(hang(), members),
             Catch::Contains("does not end (does something between the hosts drop packets"));
}

TEST_CASE("ranks that wait for each other's data are named", "[hang]") {
  std::vector<Witness> members = witnesses({7, 7, 7, 7});
  const auto set_awaited = [&](std::size_t rank, std::vector<int> ranks) {
    members[rank].progress->groups[0].awaited = std::move(ranks);
  };
  set_awaited(0, {1, 2});
  set_awaited(1, {2});
  set_awaited(2, {1});
  CHECK(diagnose(hang(), members) ==
        "rank 1 (node, pid 101, cpu) and rank 2 (node, pid 102, cpu) wait for each other's data in "
        "all_reduce #7 (bucket 1: fc.*) (does something between them drop packets, such as a "
        "firewall or an MTU that is not the same everywhere?); 4 ranks waiting 10.0 s");
  set_awaited(2, {1, 3});
  set_awaited(3, {0, 2});
  members[1].progress->groups[0].collectives = 6;  // the others are ahead
  members[1].progress->groups[0].waits_for = "all_reduce #6 (bucket 0: conv.*)";
  CHECK_THAT(
      diagnose(hang(), members),
      Catch::Contains("wait for each other's data in all_reduce #6 (bucket 0: conv.*), as do "
                      "ranks 2 and 3 (does something between them drop"));
  SECTION("but for one that is stopped") {
    members[3].state = ProcessState::kStopped;
    CHECK_THAT(diagnose(hang(), members),
               Catch::StartsWith("rank 3 (node, pid 103, cpu) is stopp"));
  }
  SECTION("but for a silent one, which may be what keeps them") {
    members[0].silence = 5s;
    CHECK_THAT(diagnose(hang(), members), !Catch::Contains("wait for each other's data"));
    members[0].silence = 0s;
    members[2].silence = 5s;
    CHECK_THAT(diagnose(hang(), members),
               Catch::StartsWith("rank 2 (node, pid 102, cpu) runs, but"));
  }
}

TEST_CASE("a rank that waits for another operation is named with that operation", "[hang]") {
  std::vector<Witness> members = witnesses({7, 6});
  members[1].progress->is_inside = true;
  members[1].progress->step = 0;
  members[1].progress->groups.push_back(
      {"default/split0", 3, "barrier #3 of group default/split0"});
  CHECK_THAT(diagnose(hang(), members),
             Catch::Contains("; last seen inside the library, where it waits for barrier #3 of "
                             "group default/split0; 1 rank"));
}

TEST_CASE("of the ranks behind, those that wait in another group are not blamed", "[hang]") {
  std::vector<Witness> members = witnesses({7, 7, 6, 6});
  members[2].progress->groups.push_back(
      {"default/split0/color1", 3, "barrier #3 of group default/split0/color1"});
  const std::string text = diagnose(hang(), members);
  CHECK_THAT(text, Catch::StartsWith("rank 3 (node, pid 103, cpu) has not joined all_reduce #7"));
  CHECK_THAT(text, !Catch::Contains("the same holds"));
  CHECK_THAT(text, Catch::EndsWith("3 ranks waiting 10.0 s"));
}

TEST_CASE("a send waits only for its peer", "[hang]") {
  Hang sending = hang();
  sending.operation = "send #7 (float32[1]) to rank 1";
  sending.signature.kind = CollectiveKind::kSend;
  sending.signature.root = 1;
  sending.transfers = {{1, sending.operation}};
  CHECK_THAT(diagnose(sending, witnesses({9, 9, 0})),
             Catch::StartsWith("rank 1 (") && Catch::EndsWith("1 rank waiting 10.0 s"));
  std::vector<Witness> members = witnesses({9, 9, 0});
  members[1].progress->groups[0].waits_for = "recv #7 (float32[1]) from rank 2";
  CHECK_THAT(diagnose(sending, members), !Catch::Contains("batch()"));
  members[1].progress->groups[0].waits_for = "send #3 (float32[1]) to rank 2";
  CHECK_THAT(diagnose(sending, members), !Catch::Contains("batch()"));
  members[1].progress->groups[0].waits_for = "send #3 (float32[1]) to rank 0 of group default/x";
  CHECK_THAT(diagnose(sending, members),
             Catch::EndsWith("10.0 s; a send and a recv that cross need one batch()"));
}

TEST_CASE("a batch of sends and receives waits for any of its peers", "[hang]") {
  Hang batch = hang();
  batch.signature.kind = CollectiveKind::kRecv;
  batch.transfers = {{1, "recv #7 from rank 1"}, {2, "recv #8 from rank 2"}, {1, "send #9"}};
  std::vector<Witness> members = witnesses({9, 9, 9, 0});
  members[3].state = ProcessState::kEnded;  // is not concerned
  CHECK_THAT(diagnose(batch, members), Catch::StartsWith("at least one of ranks 1, 2 has not"));
  members[1].state = ProcessState::kUnknown;
  members[1].silence = 12s;
  CHECK_THAT(diagnose(batch, members),
             Catch::StartsWith("rank 1 (node, pid 101, cpu) has given no sign of life for 12.0 s "
                               "and has not joined recv #7 from rank 1;"));
  members[2].state = ProcessState::kStopped;
  CHECK_THAT(diagnose(batch, members),
             Catch::StartsWith("rank 2 (node, pid 102, cpu) is stopped (SIGSTOP) and has not "
                               "joined recv #8 from rank 2;"));
}

TEST_CASE("serialised progress is parsed back unchanged", "[hang]") {
  RankProgress progress = *witnesses({7})[0].progress;
  progress.groups[0].awaited = {3, 17};
  progress.groups.push_back({"default/split0", 2, "barrier #2 of group default/split0"});
  const RankProgress back = parse_rank_progress(serialize(progress));
  CHECK(to_string(back.who) == "rank 0 (node, pid 100, cpu)");
  CHECK(back.step == 50);
  CHECK(back.is_in_step);
  REQUIRE(back.find("default") != nullptr);
  CHECK(back.find("default")->collectives == 7);
  CHECK(back.find("default")->awaited == std::vector{3, 17});
  REQUIRE(back.find("default/split0") != nullptr);
  CHECK(back.find("default/split0")->awaited.empty());
  CHECK(back.find("another") == nullptr);
  CHECK_THROWS_AS(parse_rank_progress("nonsense"), NetworkError);
  std::string too_large = serialize(progress);
  too_large.replace(too_large.find("3 17"), 1, "99999999999");
  CHECK_THROWS_AS(parse_rank_progress(too_large), NetworkError);
}
