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
  FirstError with_lost(lost), with_late(late);
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
  FirstError here(store.clone());
  FirstError there(store.clone());
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
  FirstError here(store.clone());
  FirstError there(store.clone());
  here.set(std::make_exception_ptr(std::bad_alloc()), {.sentence = "[x] rank 0 has no memory"});
  CHECK_THROWS_AS(here.rethrow_if_set(), std::bad_alloc);
  CHECK(there.poll());
  CHECK_THROWS_AS(there.rethrow_if_set(), PeerError);
  CHECK(error_of([&] { there.rethrow_if_set(); }) == "[x] rank 0 has no memory");
}

TEST_CASE("the first of several errors is kept", "[first_error]") {
  HashStore store;
  FirstError error(store.clone());
  error.set(CudaError("first"));
  error.set(TimeoutError("second"));
  CHECK(error_of([&] { error.rethrow_if_set(); }) == "first");
}

TEST_CASE("an error breaks the parents first", "[first_error]") {
  HashStore of_parent, of_child;
  Heard heard;
  const auto parent = std::make_shared<FirstError>(of_parent.clone(), heard.listener());
  FirstError child(
      of_child.clone(),
      [&](const std::exception_ptr&) {
        CHECK(heard.texts == std::vector<std::string>{"cause"});
        CHECK(parent->is_set());
      },
      parent);
  FirstError elsewhere(of_child.clone());
  elsewhere.set(TimeoutError("cause"));
  REQUIRE(child.poll());
  CHECK_THROWS_AS(parent->rethrow_if_set(), TimeoutError);
  FirstError parent_elsewhere(of_parent.clone());
  REQUIRE(parent_elsewhere.poll());
  CHECK_THROWS_AS(parent_elsewhere.rethrow_if_set(), TimeoutError);
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
  parent = std::make_shared<FirstError>(store, by_parent.listener());
  FirstError child(of_child.clone(), by_child.listener(), parent);
  child.leave(PeerError("rank 0 left"));
  CHECK(error_of([&] { child.rethrow_if_set(); }) == "rank 0 left");
  CHECK(error_of([&] { parent->rethrow_if_set(); }) == "rank 0 left");
  CHECK(by_child.texts == std::vector<std::string>{""});
  CHECK(by_parent.texts == std::vector<std::string>{""});
  Heard by_other;
  FirstError other(of_parent.clone(), by_other.listener());
  CHECK(other.poll());
  CHECK(by_other.texts == std::vector<std::string>{"rank 0 left"});
}

TEST_CASE("a rank that leaves after another's error reports that one", "[first_error]") {
  HashStore store;
  Heard heard;
  FirstError here(store.clone(), heard.listener()), there(store.clone());
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
      FirstError error(store.clone());
      error.set(CudaError(causes[r]));
      seen[r] = error_of([&] { error.rethrow_if_set(); });
      expect(!seen[r].empty(), "an error");
    });
    for (const std::string& cause : seen) CHECK(cause == seen[0]);
  }
}
