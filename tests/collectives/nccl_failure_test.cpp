// SPDX-License-Identifier: MIT
//
// What ranks report when NCCL fails, tested with a fake NCCL. No GPU is needed.
#include "ddp/collectives/nccl/nccl_failure.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/store/hash_store.h"
#include "support/dead_rank.h"
#include "support/fake_nccl.h"
#include "support/gate.h"
#include "support/run_ranks.h"
#include "support/scoped_variable.h"

using namespace ddp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

ncclResult_t async_error = ncclSuccess;
std::string last_warning;

NcclApi failing_nccl() {
  NcclApi nccl = test::fake_nccl();
  nccl.comm_get_async_error = [](ncclComm_t, ncclResult_t* state) {
    *state = async_error;
    return ncclSuccess;
  };
  nccl.get_last_error = [](ncclComm_t) { return last_warning.c_str(); };
  return nccl;
}

// The threads that hang until these are raised may outlive their tests.
test::Gate nobody_comes;
test::Gate rank_cannot_start;

template <test::Gate& end>
NcclApi hanging_nccl() {
  NcclApi nccl = failing_nccl();
  nccl.comm_init_rank_config = [](ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) {
    return end.wait_for(1) ? ncclSuccess : ncclInternalError;
  };
  return nccl;
}

// Rank 0 of two.
struct Survivor {
  // The error after this state of the communicator; empty if there is none.
  std::string error_after(ncclResult_t state) {
    async_error = state;
    NcclCommunicator communicator(test::without_peers(config), failing_nccl());
    recorder.submitted(1, {CollectiveKind::kBarrier, {}, {}});
    look_for_async_error(communicator, first_error, roll, recorder, [] {
      return Activity{.rank = "rank 0",
                      .call = {.sequence = 1, .kind = CollectiveKind::kBarrier},
                      .operation = "#1 barrier"};
    });
    return test::error_of([&] { first_error.rethrow_if_set(); });
  }

  // Rank 1 leaves after that many collectives.
  void lose_peer_after(std::uint64_t collectives) const {
    GroupConfig peer = config;
    peer.rank = 1;
    PeerRoll(peer).leave(collectives);
  }

  HashStore store;
  GroupConfig config{.store = store.clone(), .background_store = store.clone(), .world_size = 2};
  FirstError first_error{store.clone(), 0};
  PeerRoll roll{config};
  FlightRecorder recorder;
};

}  // namespace

TEST_CASE("a communicator that is connected when the group's start fails is closed", "[nccl]") {
  static int aborts = 0;
  aborts = 0;
  NcclApi nccl = test::fake_nccl();
  nccl.comm_abort = [](ncclComm_t) {
    ++aborts;
    return ncclSuccess;
  };
  Survivor survivor;
  survivor.config.start_timeout = Timeout(50);  // rank 1 never comes
  CHECK_THROWS_AS(NcclCommunicator(survivor.config, nccl), TimeoutError);
  CHECK(aborts == 1);
}

TEST_CASE("a failure of NCCL names the rank that died", "[nccl]") {
  Survivor survivor;
  const RankIdentity dead = test::write_dead_rank(survivor.store, 1, cuda_device(0));
  const ncclResult_t state = GENERATE(ncclRemoteError, ncclSystemError);
  CHECK(survivor.error_after(state) == "[nccl] " + to_string(dead) +
                                           " died, while rank 0 is in #1 barrier: what NCCL says "
                                           "(NCCL_DEBUG=WARN makes NCCL say more)");
  CHECK_THROWS_AS(survivor.first_error.rethrow_if_set(), PeerError);
}

TEST_CASE("a failure of NCCL names the rank that left", "[nccl]") {
  Survivor survivor;
  survivor.lose_peer_after(0);
  CHECK_THAT(survivor.error_after(GENERATE(ncclRemoteError, ncclSystemError)),
             StartsWith("[nccl] rank 1 (") && Contains(" left the group, while rank 0 is in #1 "));
}

TEST_CASE("an error of its own is not blamed on a rank that left after its part", "[nccl]") {
  Survivor survivor;
  survivor.lose_peer_after(1);
  survivor.roll.leave(1);
  CHECK_THAT(survivor.error_after(ncclUnhandledCudaError),
             StartsWith("[nccl] #1 barrier on rank 0: what NCCL says"));
  CHECK_THROWS_AS(survivor.first_error.rethrow_if_set(), CudaError);
}

TEST_CASE("a failure of NCCL blames no rank that is still there", "[nccl]") {
  Survivor survivor;
  const auto [state, is_of_peer] =
      GENERATE(std::pair(ncclRemoteError, true), std::pair(ncclUnhandledCudaError, false));
  CHECK_THAT(survivor.error_after(state),
             StartsWith("[nccl] #1 barrier on rank 0: what NCCL says"));
  if (is_of_peer) {
    CHECK_THROWS_AS(survivor.first_error.rethrow_if_set(), PeerError);
  } else {
    CHECK_THROWS_AS(survivor.first_error.rethrow_if_set(), CudaError);
  }
}

TEST_CASE("an NCCL that works or is starting breaks nothing", "[nccl]") {
  Survivor survivor;
  CHECK(survivor.error_after(ncclSuccess).empty());
  CHECK(survivor.error_after(ncclInProgress).empty());
}

TEST_CASE("variables that break this use of NCCL are refused", "[nccl]") {
  const auto [variable, value] = GENERATE(table<const char*, const char*>(
      {{"NCCL_COMM_BLOCKING", "0"}, {"NCCL_COMM_ID", "10.0.0.1:4444"}}));
  const test::ScopedVariable set(variable, value);
  Survivor survivor;
  CHECK_THAT(test::error_of(
                 [&] { NcclCommunicator(test::without_peers(survivor.config), failing_nccl()); }),
             StartsWith("[nccl] " + std::string(variable) + "=" + value));
}

TEST_CASE("a start of NCCL in which nothing comes says what to look at", "[nccl]") {
  Survivor survivor;
  survivor.config.start_timeout = Timeout(200);
  CHECK_THAT(
      test::error_of([&] { NcclCommunicator(survivor.config, hanging_nccl<nobody_comes>()); }),
      Contains("within 200 ms") && Contains("NCCL_SOCKET_IFNAME"));
  nobody_comes.raise();
}

TEST_CASE("a start of NCCL that waits in vain ends when another rank cannot start", "[nccl]") {
  Survivor survivor;
  survivor.config.check_while_starting = [](const auto&) {
    throw PeerError("rank 1 cannot start");
  };
  const auto begin = Clock::now();
  CHECK_THROWS_AS(NcclCommunicator(survivor.config, hanging_nccl<rank_cannot_start>()), PeerError);
  CHECK(Clock::now() - begin < std::chrono::seconds(5));
  rank_cannot_start.raise();
}

TEST_CASE("NCCL's most common warnings come with advice", "[nccl]") {
  // Messages of NCCL 2.28.
  const auto [warning, advice] = GENERATE(table<std::string, std::string>({
      {"Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000", "one worker per GPU"},
      {"Error while creating shared memory segment /dev/shm/nccl-1 (size 9), error: No space left",
       "--shm-size"},
      {"Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
      {"socketStartConnect: connect to 10.0.0.2<45763> failed : Connection refused", "a firewall"},
      {"Mismatched NCCL version detected : rank 0 version 22809 rank 1 version 22705",
       "the same libnccl.so.2"},
      {"Call to ibv_reg_mr failed with error Cannot allocate memory", "ulimit -l"},
      {"Call to ibv_modify_qp failed with 110 Connection timed out", "NCCL_IB_GID_INDEX"},
      {"NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_RETRY_EXC_ERR(12)",
       "NCCL_IB_DISABLE=1"},
      {"Cuda failure 2 'out of memory'", "nvidia-smi"},
      {"Cuda failure 711 'peer mapping resources exhausted'", "NCCL_P2P_DISABLE=1"},
      {"Cuda failure 217 'peer access is not supported between these two devices'",
       "NCCL_P2P_DISABLE=1"},
      {"Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'",
       "driver is older"},
      {"Call to socket failed: Too many open files", "ulimit -n"},
  }));
  last_warning = warning + "\n";
  const std::string text = error_text(failing_nccl(), ncclSystemError);
  last_warning.clear();
  CHECK_THAT(text, StartsWith("what NCCL says: " + warning + " (") && Contains(advice));
}

TEST_CASE("an NCCL that is older than the build needs is refused with both versions", "[nccl]") {
  const std::string text = test::error_of([] { (void)open_nccl(DDP_FAKE_OLD_NCCL); });
  const std::string header = "the header of " + std::to_string(NCCL_MAJOR) + "." +
                             std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH) + ")";
  CHECK_THAT(text, StartsWith("[nccl] " DDP_FAKE_OLD_NCCL " is NCCL 2.18.5, and 2.19.0 or later") &&
                       Contains(header) && Contains("LD_LIBRARY_PATH"));
}

TEST_CASE("a missing NCCL is told with what helps", "[nccl]") {
  CHECK_THAT(test::error_of([] { (void)open_nccl("libno_such_nccl.so.2"); }),
             Contains("libno_such_nccl.so.2: cannot open") && Contains("LD_LIBRARY_PATH"));
}
