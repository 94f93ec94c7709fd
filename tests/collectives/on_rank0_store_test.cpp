// SPDX-License-Identifier: MIT
//
// on_rank0 beside stores that fail, are silent, or answer late.
#include "ddp/collectives/on_rank0.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/collectives/hang/rank_progress.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/store/hash_store.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

constexpr OnRank0Options kQuick = {.period = 20ms, .silence = 3s};

// A process that has ended, but that its parent has not waited for, so that its pid is not reused.
class EndedProcess {
 public:
  EndedProcess() : pid_(::fork()) {
    if (pid_ == 0) ::_exit(0);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  ~EndedProcess() { ::waitpid(pid_, nullptr, 0); }
  EndedProcess(const EndedProcess&) = delete;
  EndedProcess& operator=(const EndedProcess&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// The store of a rank that reads another identity of rank 0.
class StoreOfRank0 : public test::ForwardingStore {
 public:
  StoreOfRank0(std::shared_ptr<Store> store, std::string who)
      : ForwardingStore(std::move(store)), who_(std::move(who)) {}

  std::string get(std::string_view key, Timeout timeout) override {
    return key.ends_with("on_rank0_0/who") ? who_ : store()->get(key, timeout);
  }

 protected:
  [[nodiscard]] const std::string& who() const { return who_; }

 private:
  std::string who_;
};

// The rank then loses the connection.
class LostStore final : public StoreOfRank0 {
 public:
  using StoreOfRank0::StoreOfRank0;

  void wait(std::span<const std::string> keys, Timeout timeout) override {
    if (keys[0].ends_with("on_rank0_0/result"))
      throw NetworkError("the peer closed the connection");
    store()->wait(keys, timeout);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<LostStore>(store()->clone(timeout), who());
  }
};

// Rank 0's result comes when the rank has waited for it in vain, and before it looks further.
class LateStore final : public StoreOfRank0 {
 public:
  using StoreOfRank0::StoreOfRank0;

  void wait(std::span<const std::string> keys, Timeout timeout) override {
    store()->wait(keys, timeout);
    if (keys[0].ends_with("on_rank0_0/result") && !std::exchange(is_late_, true)) {
      throw TimeoutError("no result yet");
    }
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<LateStore>(store()->clone(timeout), who());
  }

 private:
  bool is_late_ = false;
};

// Does not answer when the rank first asks for rank 0's heartbeat, nor for a while after, as if its
// host were stopped; when it answers again, rank 0 has not been able to beat since.
class SilentStore final : public StoreOfRank0 {
 public:
  using StoreOfRank0::StoreOfRank0;
  static constexpr Timeout kSilence = 3500ms;

  std::string get(std::string_view key, Timeout timeout) override {
    if (!key.ends_with("on_rank0_0/beat") || is_back_) return StoreOfRank0::get(key, timeout);
    if (!end_) end_ = Deadline::after(kSilence);
    is_back_ = end_->passed();
    if (is_back_) return "0";
    std::this_thread::sleep_for(timeout);
    throw TimeoutError("no answer");
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<SilentStore>(store()->clone(timeout), who());
  }

 private:
  std::optional<Deadline> end_;
  bool is_back_ = false;
};

// Rank 0 loses the connection when it writes the result.
class StoreLostByRank0 final : public test::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  void set(std::string_view key, std::string_view value) override {
    if (key.ends_with("on_rank0_0/result")) throw NetworkError("the peer closed the connection");
    store()->set(key, value);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<StoreLostByRank0>(store()->clone(timeout));
  }
};

// Rank 0 cannot open another connection for the heartbeat.
class StoreWithoutMoreConnections final : public test::ForwardingStore {
 public:
  StoreWithoutMoreConnections(std::shared_ptr<Store> store, std::shared_ptr<std::atomic<bool>> full)
      : ForwardingStore(std::move(store)), full_(std::move(full)) {}

  void set(std::string_view key, std::string_view value) override {
    store()->set(key, value);
    if (key.ends_with("on_rank0_0/who")) *full_ = true;
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    if (*full_) throw NetworkError("too many open files");
    return std::make_shared<StoreWithoutMoreConnections>(store()->clone(timeout), full_);
  }

 private:
  std::shared_ptr<std::atomic<bool>> full_;
};

// The store of a rank that first calls `before` whenever it asks what rank 0 has published for its
// hang watch.
class StoreOfWatch final : public test::ForwardingStore {
 public:
  StoreOfWatch(std::shared_ptr<Store> store, std::function<void(Store&, std::string_view)> before)
      : ForwardingStore(std::move(store)), before_(std::move(before)) {}

  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    if (key.ends_with("/progress/0")) before_(*store(), key);
    return store()->compare_set(key, expected, desired);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<StoreOfWatch>(store()->clone(timeout), before_);
  }

 private:
  std::function<void(Store&, std::string_view)> before_;
};

// The rank is suspended for a while when it first waits for rank 0 to come; `awake` is raised when
// it waits again.
class SuspendedStore final : public test::ForwardingStore {
 public:
  SuspendedStore(std::shared_ptr<Store> store, Timeout suspension,
                 std::shared_ptr<test::Gate> awake)
      : ForwardingStore(std::move(store)), suspension_(suspension), awake_(std::move(awake)) {}

  std::string get(std::string_view key, Timeout timeout) override {
    if (!key.ends_with("on_rank0_0/who")) return store()->get(key, timeout);
    if (std::exchange(has_waited_, true)) {
      awake_->raise();
      return store()->get(key, timeout);
    }
    std::this_thread::sleep_for(suspension_);
    throw TimeoutError("not there yet");
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<SuspendedStore>(store()->clone(timeout), suspension_, awake_);
  }

 private:
  Timeout suspension_;
  std::shared_ptr<test::Gate> awake_;
  bool has_waited_ = false;
};

// Of two ranks.
std::shared_ptr<ProcessGroup> join(int rank, std::shared_ptr<Store> store,
                                   const HangWatchOptions& hang_watch = {}) {
  return init_process_group({.backend = Backend::kShm,
                             .device = DeviceChoice::kCpu,
                             .rank = rank,
                             .world_size = 2,
                             .store = std::move(store),
                             .ranks_are_threads = true,
                             .hang_watch = hang_watch});
}

// Runs fn(group) on two ranks. Rank 1 sees their store through a StoreOfRank1, which takes `leader`
// for rank 0.
template <class StoreOfRank1>
void run_with_store(const RankIdentity& leader, const std::function<void(ProcessGroup&)>& fn) {
  const auto hash_store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    std::shared_ptr<Store> store = hash_store;
    if (rank == 1) store = std::make_shared<StoreOfRank1>(store, serialize(leader));
    const auto group = join(rank, store);
    fn(*group);
  });
}

// The error of rank 1 if the store disappears while `leader` is in on_rank0.
std::string loss_of_store(const RankIdentity& leader) {
  std::promise<std::string> error;
  const std::shared_future<std::string> result = error.get_future();
  run_with_store<LostStore>(leader, [&](ProcessGroup& group) {
    if (group.rank() == 1) {
      const auto nothing = [] {};
      error.set_value(error_of([&] { on_rank0(group, nothing, kQuick); }));
    }
    result.wait();
  });
  return result.get();
}

}  // namespace

TEST_CASE("a result is read although rank 0 has ended since", "[on_rank0]") {
  const EndedProcess ended;
  RankIdentity leader = identify_self(0, kCpuDevice);
  leader.pid = ended.pid();
  run_with_store<LateStore>(leader, [](ProcessGroup& group) {
    bool has_run = false;
    on_rank0(group, [&] { has_run = true; }, {.period = 10s, .silence = 20s});
    expect(has_run == (group.rank() == 0), "rank 0 to run the function");
  });
}

TEST_CASE("a store that does not answer for a while is not taken for a frozen rank 0",
          "[on_rank0]") {
  run_with_store<SilentStore>(identify_self(0, kCpuDevice), [](ProcessGroup& group) {
    const auto work = [] { std::this_thread::sleep_for(SilentStore::kSilence + 1s); };
    on_rank0(group, work, {.period = 20ms, .silence = 3s});
  });
}

TEST_CASE("a rank that was suspended for longer than its timeout still waits for rank 0",
          "[on_rank0]") {
  constexpr Timeout kTimeout = 6500ms;  // longer than a look at the store may take
  const auto store = std::make_shared<HashStore>();
  const auto awake = std::make_shared<test::Gate>();
  test::run_ranks(2, [&](int rank) {
    std::shared_ptr<Store> own = store;
    if (rank == 1) own = std::make_shared<SuspendedStore>(store, kTimeout + 500ms, awake);
    const auto group = join(rank, own);
    const ScopedTimeout limit(*group, kTimeout);
    if (rank == 0) expect(awake->wait_for(1) || awake->wait_for(1), "rank 1 to wait on");
    bool has_run = false;
    on_rank0(
        *group, [&] { has_run = true; }, kQuick);
    expect(has_run == (rank == 0), "rank 0 to run the function");
  });
}

TEST_CASE("rank 0 throws its own exception although the store was lost, too", "[on_rank0]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    const auto own =
        rank == 0 ? std::make_shared<StoreLostByRank0>(store) : std::shared_ptr<Store>(store);
    const auto group = join(rank, own);
    const auto fails = [] { throw std::invalid_argument("no such file"); };
    const std::string text = error_of([&] {
      try {
        on_rank0(*group, fails, kQuick);
      } catch (const std::invalid_argument&) {
        group->abort("no such file");
        throw;
      }
    });
    expect(text.find("no such file") != std::string::npos, text);
  });
}

TEST_CASE("a rank 0 that cannot begin tells the others why", "[on_rank0]") {
  const auto store = std::make_shared<HashStore>();
  const auto is_full = std::make_shared<std::atomic<bool>>(false);
  test::run_ranks(2, [&](int rank) {
    std::shared_ptr<Store> own = store;
    if (rank == 0) own = std::make_shared<StoreWithoutMoreConnections>(store, is_full);
    const auto group = join(rank, own);
    const std::string text = error_of([&] {
      on_rank0(
          *group, [] {}, kQuick);
    });
    const std::string expected =
        rank == 0 ? "too many open files" : "[on_rank0] rank 0 failed: too many open files";
    expect(text == expected, expected + ", not " + text);
    *is_full = false;
  });
}

namespace {

// Runs fn(group) on two ranks, of which rank 1 sees their store through a StoreOfWatch.
void run_watched(const std::function<void(Store&, std::string_view)>& before,
                 const std::function<void(ProcessGroup&)>& fn) {
  const auto hash_store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    std::shared_ptr<Store> store = hash_store;
    if (rank == 1) store = std::make_shared<StoreOfWatch>(store, before);
    fn(*join(rank, store, {.period = 20ms}));
  });
}

}  // namespace

TEST_CASE("a store that is silent while rank 0 is awaited ends no call of on_rank0", "[on_rank0]") {
  test::Gate asked;
  const auto do_not_answer = [&](Store&, std::string_view) {
    asked.raise();
    throw TimeoutError("no answer");
  };
  run_watched(do_not_answer, [&](ProcessGroup& group) {
    if (group.rank() == 0) expect(asked.wait_for(1), "rank 1 to ask");
    on_rank0(
        group, [] {}, kQuick);
  });
}

TEST_CASE("a rank 0 that has come and gone on is not in another call", "[on_rank0]") {
  test::Gate asked, submitted;
  const auto be_late = [&](Store& store, std::string_view key) {
    asked.raise();
    expect(submitted.wait_for(1), "rank 0 to go on");
    const auto is_published = [&] {
      const RankProgress progress = parse_rank_progress(store.find(key).value());
      return progress.find("default")->collectives == 1;
    };
    expect(becomes_true(is_published, 20s, 1ms), "rank 0 to publish it");
  };
  run_watched(be_late, [&](ProcessGroup& group) {
    if (group.rank() == 0) expect(asked.wait_for(1), "rank 1 to ask");
    on_rank0(
        group, [] {}, kQuick);
    Work work = group.barrier();
    if (group.rank() == 0) submitted.raise();
    work.wait();
  });
}

TEST_CASE("a rank 0 that hosts the store and ends in on_rank0 is named by the others",
          "[on_rank0]") {
  RankIdentity leader = identify_self(0, kCpuDevice);
  CHECK(loss_of_store(leader) ==
        "[on_rank0] lost the store, which rank 0 or its launcher hosts: the peer closed the "
        "connection");
  const EndedProcess ended;
  leader.pid = ended.pid();
  CHECK(loss_of_store(leader) == "[on_rank0] " + to_string(leader) + " has ended in on_rank0");
}
