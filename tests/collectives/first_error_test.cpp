// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/first_error.h"

#include <catch2/catch.hpp>

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/store/hash_store.h"
#include "support/forwarding_store.h"
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
