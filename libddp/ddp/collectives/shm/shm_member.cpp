// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_member.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/collectives/failure/failure_sentences.h"
#include "ddp/collectives/peers/cpu_sharing.h"

namespace ddp::shm {
namespace {

// How long a sleeper waits between two checks whether its peers are alive: the delay after which a
// dead peer is noticed.
constexpr Timeout kLivenessPeriod(50);

// Writing the first cause takes microseconds, unless its rank is stopped or killed meanwhile.
constexpr Timeout kCausePatience(1000);

// How long a process may take to count as ended after its files are closed.
constexpr Timeout kEndingPatience(200);

// Between two looks during these waits.
constexpr Timeout kPause(1);

// Sleeps while `word` holds `seen`, at most for `timeout`. The futex is shared between processes.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen, Timeout timeout) {
  const timespec limit{timeout.count() / 1000, (timeout.count() % 1000) * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// How often a rank with a CPU of its own looks before it sleeps.
constexpr int kSpins = 2000;

// How long a rank looks that shares its CPU, yielding to the others: the more ranks there are, the
// longer it takes until all of them have had their turn.
std::chrono::microseconds yielding_spin(double cpus_per_rank) {
  constexpr double kForEachRank = 50;
  constexpr double kMost = 200;
  return std::chrono::microseconds(static_cast<int>(std::min(kForEachRank / cpus_per_rank, kMost)));
}

double cpus_per_rank(const Segment& segment, int rank) {
  std::vector<CpuSet> allowed;
  for (int other = 0; other < segment.world_size(); ++other) {
    allowed.push_back(segment.control(other).allowed_cpus);
  }
  return ddp::cpus_per_rank(allowed, static_cast<std::size_t>(rank),
                            cpu_quota(CgroupSource::of_this_process()));
}

PeerWatch watch_peers(const Segment& segment) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < segment.world_size(); ++rank) {
    pids.push_back(segment.control(rank).pid);
  }
  return PeerWatch(pids);
}

}  // namespace

Member::Member(const GroupConfig& config, std::shared_ptr<const FlightRecorder> recorder)
    : segment_(config),
      rank_(config.rank),
      job_rank_(config.job_rank(config.rank)),
      names_(config),
      timeout_(config.timeout),
      recorder_(std::move(recorder)),
      cpus_per_rank_(shm::cpus_per_rank(segment_, config.rank)),
      spins_(kSpins),
      yielding_spin_(yielding_spin(cpus_per_rank_)),
      watch_(watch_peers(segment_)) {}

void Member::begin_call(const CollectiveSignature& signature, int peer) {
  call_ = signature;
  call_peer_ = peer;
}

void Member::barrier() {
  control(rank_).phase.store(++phase_);
  ring_all();
  const auto have_all_come = [this] {
    for (int rank = 0; rank < world_size(); ++rank) {
      if (is_behind(rank)) return false;
    }
    return true;
  };
  wait_until(have_all_come, [this](int rank) { return is_behind(rank); });
}

// Phases wrap around, so they are compared by their difference.
bool Member::is_behind(int rank) const {
  return static_cast<std::int32_t>(control(rank).phase.load() - phase_) < 0;
}

void Member::ring(int rank) const {
  RankControl& target = control(rank);
  if (target.sleeping.load() == 0) return;
  target.doorbell.fetch_add(1);
  wake(target.doorbell);
}

void Member::ring_all() const {
  for (int other = 0; other < world_size(); ++other) {
    if (other != rank_) ring(other);
  }
}

void Member::sleep_until(const Condition& ready, const IsAwaited& is_awaited, Deadline deadline) {
  RankControl& self = control(rank_);
  self.sleeping.store(1);
  for (;;) {
    const std::uint32_t seen = self.doorbell.load();
    if (ready()) break;
    check_peers(ready, is_awaited);
    const Timeout left = clock_.remaining(deadline);
    if (left == Timeout(0)) time_out(is_awaited);
    sleep_while(self.doorbell, seen, std::min(kLivenessPeriod, left));
  }
  self.sleeping.store(0, std::memory_order_relaxed);
}

// Uses the hang watch's diagnosis, which knows more: which rank is missing, and where it is.
void Member::time_out(const IsAwaited& is_awaited) {
  const std::string text = timeout_sentence("[shm] " + names_.self(), timeout_, *recorder_,
                                            operation() + late_ranks(is_awaited));
  std::rethrow_exception(fail({Cause::kTimeout, text}));
}

void Member::check_peers(const Condition& ready, const IsAwaited& is_awaited) {
  if (leaving_.load()) throw PeerError("[shm] the process group was destroyed");
  if (is_broken()) throw_recorded_error();
  for (int other = 0; other < world_size(); ++other) {
    if (other != rank_) check_peer(other, ready, is_awaited);
  }
  if (Clock::now() >= next_look_) next_look_ = Clock::now() + kLivenessPeriod;
}

// A rank may leave once it has done its part, and then even exit. So its death is read first, then
// `left`, which by then shows everything that came before the death, and `ready` last.
void Member::check_peer(int other, const Condition& ready, const IsAwaited& is_awaited) {
  check_peer_call(other, ready);
  const bool is_dead = Clock::now() >= next_look_ && watch_.is_dead(other);
  const bool has_left = control(other).left.load() != 0;
  if (!(has_left ? is_awaited(other) : is_dead) || ready()) return;
  lose(other, has_left);
}

LostRank Member::lost(int rank, bool has_left) const {
  return {rank, has_left ? Fate::kLeft : Fate::kDied,
          names_.rank(rank) + " (pid " + std::to_string(control(rank).pid) + ")"};
}

void Member::lose(int rank, bool has_left) {
  const Activity activity{.rank = names_.self(),
                          .call = call_,
                          .operation = operation(),
                          .constructs_engine = names_.is_construction(call_)};
  std::rethrow_exception(
      fail({Cause::kPeer, loss_sentence("[shm]", lost(rank, has_left), activity)}));
}

void Member::expect_alive(int rank) {
  const auto is_dead = [&] { return watch_.is_dead(rank); };
  if (!becomes_true(is_dead, kEndingPatience, kPause)) return;
  lose(rank, control(rank).left.load() != 0);
}

void Member::check_on(std::span<const int> awaited, const Condition& has_come) {
  if (is_broken()) throw_recorded_error();
  for (int other = 0; other < world_size(); ++other) {
    const bool is_dead = other != rank_ && watch_.is_dead(other);
    const bool has_left = control(other).left.load() != 0;
    const bool is_awaited = std::ranges::find(awaited, other) != awaited.end();
    if (!(has_left ? is_awaited : is_dead) || has_come()) continue;
    std::rethrow_exception(
        fail({Cause::kPeer, loss_while_waiting_sentence("[shm]", lost(other, has_left), names_)}));
  }
}

// If the peer of our send or recv is in a collective that we have not begun, each waits for the
// other forever.
void Member::check_peer_call(int other, const Condition& ready) {
  const std::uint64_t theirs = control(other).running.load();
  const std::uint64_t finished = control(rank_).finished.load();
  if (call_peer_ != other || theirs <= finished || ready()) return;
  std::rethrow_exception(
      fail({Cause::kMismatch, "[shm] ranks called different collectives: " + names_.rank(other) +
                                  " called " + to_string(segment_.post(other, theirs).signature) +
                                  ", " + names_.rank(rank_) + " called " + operation()}));
}

bool Member::is_broken() const {
  return segment_.header().cause_state.load() == CauseState::kComplete;
}

std::exception_ptr Member::recorded_error() const {
  if (!is_broken()) return nullptr;
  return GroupFailure::from_note(segment_.header().note).error(job_rank_);
}

void Member::throw_recorded_error() const { std::rethrow_exception(recorded_error()); }

std::exception_ptr Member::fail(GroupFailure failure) {
  failure.by = job_rank_;
  const std::string note = failure.note();
  Header& header = segment_.header();
  CauseState none = CauseState::kNone;
  if (header.cause_state.compare_exchange_strong(none, CauseState::kBeingWritten)) {
    std::memcpy(header.note, note.data(), std::min(note.size(), sizeof(header.note) - 1));
    header.cause_state.store(CauseState::kComplete);
  }
  await_cause();
  ring_all();
  ring(rank_);
  const std::exception_ptr recorded = recorded_error();
  return recorded ? recorded : failure.error(job_rank_);
}

// For a rank that fails while another one is writing the cause.
void Member::await_cause() const {
  (void)becomes_true([this] { return is_broken(); }, kCausePatience, kPause);
}

void Member::leave() {
  leaving_.store(true);
  control(rank_).left.store(1);
  ring_all();
  ring(rank_);
}

std::string Member::late_ranks(const IsAwaited& is_awaited) const {
  if (call_peer_ >= 0) return ": waiting for " + names_.rank(call_peer_);
  std::vector<int> late;
  for (int other = 0; other < world_size(); ++other) {
    if (other != rank_ && is_awaited(other)) late.push_back(other);
  }
  return late.empty() ? "" : ": not joined by " + names_.ranks(late);
}

std::string Member::operation() const {
  std::string text = to_string(call_);
  if (call_peer_ >= 0) {
    text += call_.kind == CollectiveKind::kSend ? " to rank " : " from rank ";
    text += std::to_string(call_peer_);
  }
  return text + purpose_of_pending(*recorder_) + names_.of_group();
}

}  // namespace ddp::shm
