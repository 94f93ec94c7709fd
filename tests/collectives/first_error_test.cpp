// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/first_error.h"

#include <catch2/catch.hpp>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/store/hash_store.h"
#include "support/forwarding_store.h"
#include "support/observed_store.h"
#include "support/run_ranks.h"

using namespace ddp;
using test::error_of;
using test::expect;

namespace {

// Throws this error each time it is read.
template <class SomeError>
class FailingStore final : public test::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  std::string compare_set(std::string_view, std::string_view, std::string_view) override {
    ++reads;
    throw SomeError("on purpose");
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

  int reads = 0;
};

// What listeners are called with, "" for null.
struct Heard {
  FirstError::Listener listener() {
    return [this](const std::exception_ptr& error) {
      texts.push_back(error ? error_of([&] { std::rethrow_exception(error); }) : "");
    };
  }

  std::vector<std::string> texts;
};

}  // namespace

TEST_CASE("a store that is lost is not asked again, but one that was only late is",
          "[first_error]") {
  HashStore store;
  const auto lost = std::make_shared<FailingStore<NetworkError>>(store.clone());
  const auto late = std::make_shared<FailingStore<TimeoutError>>(store.clone());
  FirstError with_lost(lost, 0), with_late(late, 0);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(with_lost.poll());
    CHECK_FALSE(with_late.poll());
  }
  CHECK(lost->reads == 1);
  CHECK(late->reads == 3);
}

TEMPLATE_TEST_CASE("an error of all ranks has the same class on each", "[first_error]",
                   TimeoutError, MismatchError, PeerError) {
  HashStore store;
  FirstError here(store.clone(), 0);
  FirstError there(store.clone(), 1);
  CHECK_FALSE(here.is_set());
  CHECK_FALSE(here.poll());
  CHECK_NOTHROW(here.rethrow_if_set());
  here.set(TestType("[x] rank 0: too late"));
  CHECK_THROWS_AS(here.rethrow_if_set(), TestType);
  CHECK_NOTHROW(there.rethrow_if_set());
  CHECK(there.poll());
  CHECK_THROWS_AS(there.rethrow_if_set(), TestType);
  CHECK(error_of([&] { there.rethrow_if_set(); }) == "[x] rank 0: too late");
}

TEST_CASE("an error of one rank is a PeerError on the others", "[first_error]") {
  HashStore store;
  FirstError here(store.clone(), 0);
  FirstError there(store.clone(), 1);
  here.set(std::make_exception_ptr(std::bad_alloc()), {.sentence = "[x] rank 0 has no memory"});
  CHECK_THROWS_AS(here.rethrow_if_set(), std::bad_alloc);
  CHECK(there.poll());
  CHECK_THROWS_AS(there.rethrow_if_set(), PeerError);
  CHECK(error_of([&] { there.rethrow_if_set(); }) == "[x] rank 0 has no memory");
}

TEST_CASE("a rank knows whether a timeout is its own, whomever the text quotes", "[first_error]") {
  HashStore of_parent, of_child;
  const auto parent = std::make_shared<FirstError>(of_parent.clone(), 0);
  FirstError here(of_child.clone(), 0, nullptr, parent);
  FirstError there(of_child.clone(), 1);
  FirstError of_this_rank(of_child.clone(), 0);  // which may find its own note before it keeps it
  here.set(TimeoutError("[x] rank 0: timed out after 2 ms: rank 1: timed out after 1 ms"));
  FirstError parent_there(of_parent.clone(), 1);
  REQUIRE((there.poll() && parent_there.poll() && of_this_rank.poll()));
  const auto is_own = [](const FirstError& error) {
    try {
      error.rethrow_if_set();
    } catch (const PeersTimeoutError&) {
      return false;
    } catch (const TimeoutError&) {
    }
    return true;
  };
  for (const FirstError* error : {&here, parent.get(), &of_this_rank}) CHECK(is_own(*error));
  for (const FirstError* error : {&there, &parent_there}) CHECK_FALSE(is_own(*error));
}

TEST_CASE("a note keeps all of a failure", "[first_error]") {
  using Kind = GroupFailure::Kind;
  const Kind kind = GENERATE(Kind::kPeer, Kind::kTimeout, Kind::kMismatch, Kind::kTransferMismatch);
  const std::string sentence = GENERATE("", "differ", "aborted: two\nlines\n");
  const std::string origin = GENERATE("", "[x] rank 3: ");
  const GroupFailure read = GroupFailure::from_note(GroupFailure{kind, sentence, origin, 3}.note());
  CHECK(read.kind == kind);
  CHECK(read.sentence == sentence);
  CHECK(read.origin == origin);
  CHECK(read.by == 3);
  CHECK(error_of([&] { std::rethrow_exception(read.error(0)); }) == origin + sentence);
}

TEST_CASE("a text that is no note is a peer's error", "[first_error]") {
  for (const std::string text : {"", "timeout: late", "peer\nnobody\n\nsentence", "peer\n1"}) {
    const GroupFailure failure = GroupFailure::from_note(text);
    CHECK(failure.kind == GroupFailure::Kind::kPeer);
    CHECK(failure.text() == text);
  }
}

TEST_CASE("the sentence about a send and a recv reaches the other ranks", "[first_error]") {
  HashStore store;
  FirstError here(store.clone(), 0), there(store.clone(), 1);
  here.set(TransferMismatchError("[x] rank 0: ", "send and recv differ"));
  REQUIRE(there.poll());
  CHECK(error_of([&] { there.rethrow_if_set(); }) == "[x] rank 0: send and recv differ");
  try {
    there.rethrow_if_set();
  } catch (const TransferMismatchError& error) {
    CHECK(error.sentence() == "send and recv differ");
  }
  CHECK_THROWS_AS(there.rethrow_if_set(), TransferMismatchError);
}

TEST_CASE("the first of several errors is kept", "[first_error]") {
  HashStore store;
  FirstError error(store.clone(), 0);
  error.set(CudaError("first"));
  error.set(TimeoutError("second"));
  CHECK(error_of([&] { error.rethrow_if_set(); }) == "first");
}

TEST_CASE("an error breaks the parents first", "[first_error]") {
  HashStore of_parent, of_child;
  Heard heard;
  const auto parent = std::make_shared<FirstError>(of_parent.clone(), 0, heard.listener());
  FirstError child(
      of_child.clone(), 0,
      [&](const std::exception_ptr&) {
        CHECK(heard.texts == std::vector<std::string>{"cause"});
        CHECK(parent->is_set());
      },
      parent);
  FirstError elsewhere(of_child.clone(), 1);
  elsewhere.set(TimeoutError("cause"));
  REQUIRE(child.poll());
  CHECK_THROWS_AS(parent->rethrow_if_set(), TimeoutError);
  FirstError parent_elsewhere(of_parent.clone(), 1);
  REQUIRE(parent_elsewhere.poll());
  CHECK_THROWS_AS(parent_elsewhere.rethrow_if_set(), TimeoutError);
}

TEST_CASE("a rank throws its own error, though another thread finds the note first",
          "[first_error]") {
  HashStore shared;
  std::shared_ptr<FirstError> error;
  bool polls = true;
  const auto store = std::make_shared<test::ObservedStore>(shared.clone(), [&](const std::string&) {
    if (std::exchange(polls, false)) CHECK(error->poll());
  });
  error = std::make_shared<FirstError>(store, 0);
  error->set(CudaError("failed"));
  CHECK_FALSE(polls);
  CHECK_THROWS_AS(error->rethrow_if_set(), CudaError);
}

TEST_CASE("leaving is an error of the others only", "[first_error]") {
  HashStore of_parent, of_child;
  Heard by_parent, by_child;
  bool polls_first = GENERATE(false, true);  // as another thread may
  CAPTURE(polls_first);
  std::shared_ptr<FirstError> parent;
  const auto store =
      std::make_shared<test::ObservedStore>(of_parent.clone(), [&](const std::string&) {
        if (std::exchange(polls_first, false)) CHECK(parent->poll());
      });
  parent = std::make_shared<FirstError>(store, 0, by_parent.listener());
  FirstError child(of_child.clone(), 0, by_child.listener(), parent);
  child.leave(PeerError("rank 0 left"));
  CHECK(error_of([&] { child.rethrow_if_set(); }) == "rank 0 left");
  CHECK(error_of([&] { parent->rethrow_if_set(); }) == "rank 0 left");
  CHECK(by_child.texts == std::vector<std::string>{""});
  CHECK(by_parent.texts == std::vector<std::string>{""});
  Heard by_other;
  FirstError other(of_parent.clone(), 1, by_other.listener());
  CHECK(other.poll());
  CHECK(by_other.texts == std::vector<std::string>{"rank 0 left"});
}

TEST_CASE("a rank that leaves after another's error reports that one", "[first_error]") {
  HashStore store;
  Heard heard;
  FirstError here(store.clone(), 0, heard.listener()), there(store.clone(), 1);
  there.set(PeerError("rank 1 failed"));
  here.leave(PeerError("rank 0 left"));
  CHECK(heard.texts == std::vector<std::string>{"rank 1 failed"});
}

TEST_CASE("ranks that fail together agree on one cause", "[first_error]") {
  for (int round = 0; round < 20; ++round) {
    HashStore store;
    const std::string causes[] = {"rank 0", "rank 1", "rank 2", "rank 3"};
    std::string seen[4];
    test::run_ranks(4, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      FirstError error(store.clone(), rank);
      error.set(CudaError(causes[r]));
      seen[r] = error_of([&] { error.rethrow_if_set(); });
      expect(!seen[r].empty(), "an error");
    });
    for (const std::string& cause : seen) CHECK(cause == seen[0]);
  }
}
