// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm_context.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/cpu_sharing.h"

namespace ddp::shm {
namespace {

// How long a sleeper stays away from the question whether its peers are alive; a dead peer is
// noticed after at most this.
constexpr Timeout kLivenessPeriod(50);

constexpr std::uint32_t kCauseNone = 0;
constexpr std::uint32_t kCauseWriting = 1;
constexpr std::uint32_t kCauseComplete = 2;

// Sleeps while `word` holds `seen`, at most for `timeout`. The futex is shared between processes.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen, Timeout timeout) {
  const timespec limit{timeout.count() / 1000, (timeout.count() % 1000) * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

std::string number(std::int64_t value) { return std::to_string(value); }

// Spinning helps while every rank has a CPU; it costs the peers theirs otherwise.
constexpr int kSpins = 2000;

double cpus_per_rank(const Segment& segment, int rank) {
  std::vector<cpu_set_t> allowed;
  for (int other = 0; other < segment.world_size(); ++other) {
    allowed.push_back(segment.control(other).allowed_cpus);
  }
  return ddp::cpus_per_rank(allowed, static_cast<std::size_t>(rank));
}

PeerWatch watch_peers(const Segment& segment) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < segment.world_size(); ++rank) {
    pids.push_back(segment.control(rank).pid);
  }
  return PeerWatch(pids);
}

}  // namespace

Context::Context(const GroupConfig& config, std::shared_ptr<FlightRecorder> recorder)
    : segment_(config),
      rank_(config.rank),
      timeout_(config.timeout),
      recorder_(std::move(recorder)),
      cpus_per_rank_(shm::cpus_per_rank(segment_, config.rank)),
      spins_(cpus_per_rank_ >= 1 ? kSpins : 0),
      watch_(watch_peers(segment_)) {}

void Context::begin_transfer(const CollectiveSignature& signature, int peer) {
  current_ = signature;
  current_peer_ = peer;
}

bool Context::have_all(std::atomic<std::uint64_t> RankControl::*counter, std::uint64_t goal) const {
  for (int rank = 0; rank < world_size(); ++rank) {
    if ((control(rank).*counter).load() < goal) return false;
  }
  return true;
}

// The post takes the place of the one kPosts before it.
bool Context::can_post() {
  const std::uint64_t before = posted();
  return before < kPosts || have_all_finished(before + 1 - kPosts);
}

// To look at the others' counters takes as long as all else, so it is done as rarely as possible.
bool Context::have_all_finished(std::uint64_t goal) {
  if (finished_by_all_.load(std::memory_order_relaxed) >= goal) return true;
  std::uint64_t least = control(0).finished.load();
  for (int rank = 1; rank < world_size(); ++rank) {
    least = std::min(least, control(rank).finished.load());
  }
  finished_by_all_.store(least, std::memory_order_relaxed);
  return least >= goal;
}

void Context::wait_for_room(const CollectiveSignature& signature) {
  current_ = signature;
  current_peer_ = -1;
  const std::uint64_t number = signature.sequence;
  const std::uint64_t goal = number - std::min(number, kPosts);
  wait_until([&] { return have_all_finished(goal); },
             [&](int rank) { return control(rank).finished.load() < goal; });
}

void Context::post_small(const CollectiveSignature& signature,
                         std::span<const std::byte> elements) {
  Post& mine = segment_.post(rank_, signature.sequence);
  mine.signature = signature;
  if (!elements.empty()) std::memcpy(mine.elements, elements.data(), elements.size());
  announce(signature.sequence);
}

void Context::post(const CollectiveSignature& signature, const Region& operand) {
  Post& mine = segment_.post(rank_, signature.sequence);
  mine.signature = signature;
  mine.operand = operand;
  mine.taken.store(0, std::memory_order_relaxed);
  if (rank_ == 0) {
    segment_.progress(signature.sequence).done.store(0, std::memory_order_relaxed);
    segment_.progress(signature.sequence).began.store(0, std::memory_order_relaxed);
  }
  announce(signature.sequence);
}

void Context::announce(std::uint64_t number) {
  control(rank_).posted.store(number);
  ring_all();
}

void Context::begin_collective(std::uint64_t number) {
  collective_ = number;
  current_ = segment_.post(rank_, number).signature;
  current_peer_ = -1;
  control(rank_).running.store(number, std::memory_order_release);
  wait_until([&] { return have_all(&RankControl::posted, number); },
             [&](int rank) { return control(rank).posted.load() < number; });
  const int other = differing_rank(number);
  if (other == 0) return;
  const CollectiveSignature& first = segment_.post(0, number).signature;
  const CollectiveSignature& theirs = segment_.post(other, number).signature;
  std::rethrow_exception(
      fail(Cause::kMismatch, "[shm] " + mismatch_message(0, first, other, theirs)));
}

bool Context::try_begin_collective(std::uint64_t number) {
  if (!spin_until([&] { return have_all(&RankControl::posted, number); })) return false;
  if (is_broken() || differing_rank(number) != 0) return false;
  collective_ = number;
  return true;
}

int Context::differing_rank(std::uint64_t number) const {
  const CollectiveSignature& first = segment_.post(0, number).signature;
  for (int other = 1; other < world_size(); ++other) {
    if (segment_.post(other, number).signature != first) return other;
  }
  return 0;
}

void Context::end_collective() {
  control(rank_).running.store(0, std::memory_order_relaxed);
  control(rank_).finished.store(collective_);
  ring_all();
}

void Context::bring(const Region& copy) {
  segment_.post(rank_, collective_).brought = copy;
  control(rank_).brought.store(collective_);
  ring_all();
}

void Context::wait_for_guests() {
  const auto is_missing = [this](int rank) {
    return segment_.post(rank, collective_).operand.block == 0 &&
           control(rank).brought.load() < collective_;
  };
  wait_until(
      [&] {
        for (int rank = 0; rank < world_size(); ++rank) {
          if (is_missing(rank)) return false;
        }
        return true;
      },
      is_missing);
}

bool Context::is_running(int rank) const {
  return control(rank).running.load(std::memory_order_acquire) == collective_;
}

void Context::barrier() {
  control(rank_).phase.store(++phase_);
  ring_all();
  wait_until([this] { return have_all_arrived(); },
             [this](int rank) {
               return static_cast<std::int32_t>(control(rank).phase.load() - phase_) < 0;
             });
}

bool Context::have_all_arrived() const {
  for (int rank = 0; rank < world_size(); ++rank) {
    if (static_cast<std::int32_t>(control(rank).phase.load() - phase_) < 0) return false;
  }
  return true;
}

void Context::ring(int rank) const {
  RankControl& target = control(rank);
  if (target.sleeping.load() == 0) return;
  target.doorbell.fetch_add(1);
  wake(target.doorbell);
}

void Context::ring_all() const {
  for (int other = 0; other < world_size(); ++other) {
    if (other != rank_) ring(other);
  }
}

void Context::sleep_until(const Condition& ready, const IsAwaited& is_awaited) {
  RankControl& self = control(rank_);
  const Deadline deadline = Deadline::after(timeout_);
  self.sleeping.store(1);
  for (;;) {
    const std::uint32_t seen = self.doorbell.load();
    if (ready()) break;
    check_peers(ready, is_awaited);
    if (deadline.passed()) time_out(is_awaited);
    sleep_while(self.doorbell, seen, std::min(kLivenessPeriod, deadline.remaining()));
  }
  self.sleeping.store(0, std::memory_order_relaxed);
}

// The diagnosis says more than we can: who is missing, and where it is.
void Context::time_out(const IsAwaited& is_awaited) {
  const std::string text =
      timeout_sentence("[shm] rank " + number(rank_), timeout_, recorder_->diagnosis(),
                       operation() + late_ranks(is_awaited));
  std::rethrow_exception(fail(Cause::kTimeout, text));
}

void Context::check_peers(const Condition& ready, const IsAwaited& is_awaited) {
  if (leaving_.load()) throw PeerError("[shm] the process group was destroyed");
  if (is_broken()) throw_recorded_error();
  for (int other = 0; other < world_size(); ++other) {
    if (other != rank_) check_peer(other, ready, is_awaited);
  }
  if (Clock::now() >= next_look_) next_look_ = Clock::now() + kLivenessPeriod;
}

// A rank may go once it has done its part, and then even exit. So a death is read before `left`,
// which then shows all that came before the death, and `ready` after both.
void Context::check_peer(int other, const Condition& ready, const IsAwaited& is_awaited) {
  check_peer_call(other, ready);
  const bool is_dead = Clock::now() >= next_look_ && watch_.is_dead(other);
  const bool has_left = control(other).left.load() != 0;
  if (!(has_left ? is_awaited(other) : is_dead) || ready()) return;
  const std::string who =
      "[shm] rank " + number(other) + " (pid " + number(control(other).pid) + ")";
  const std::string during = ", while rank " + number(rank_) + " is in " + operation();
  std::rethrow_exception(
      fail(Cause::kPeer, who + (has_left ? " left the group" : " died") + during));
}

// If the peer of our send or recv is in a collective that we have not begun, each waits for the
// other for ever.
void Context::check_peer_call(int other, const Condition& ready) {
  const std::uint64_t theirs = control(other).running.load();
  if (current_peer_ != other || theirs <= collective_ || ready()) return;
  std::rethrow_exception(
      fail(Cause::kMismatch, "[shm] ranks called different collectives: rank " + number(other) +
                                 " called " + to_string(segment_.post(other, theirs).signature) +
                                 ", rank " + number(rank_) + " called " + operation()));
}

bool Context::is_broken() const {
  return segment_.header().cause_state.load(std::memory_order_acquire) == kCauseComplete;
}

std::exception_ptr Context::recorded_error() const {
  if (!is_broken()) return nullptr;
  return GroupFailure{segment_.header().cause, segment_.header().text}.error();
}

void Context::throw_recorded_error() const { std::rethrow_exception(recorded_error()); }

std::exception_ptr Context::fail(Cause cause, const std::string& text) {
  Header& header = segment_.header();
  std::uint32_t none = kCauseNone;
  if (header.cause_state.compare_exchange_strong(none, kCauseWriting)) {
    header.cause = cause;
    const std::size_t length = std::min(text.size(), sizeof(header.text) - 1);
    std::memcpy(header.text, text.data(), length);
    header.cause_state.store(kCauseComplete);
  }
  ring_all();
  ring(rank_);
  const std::exception_ptr recorded = recorded_error();
  return recorded ? recorded : GroupFailure{cause, text}.error();
}

void Context::leave() {
  leaving_.store(true);
  control(rank_).left.store(1);
  ring_all();
  ring(rank_);
}

std::string Context::late_ranks(const IsAwaited& is_awaited) const {
  if (current_peer_ >= 0) return ": waiting for rank " + number(current_peer_);
  std::string names;
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_ || !is_awaited(other)) continue;
    names += (names.empty() ? ": not joined by rank " : ", ") + number(other);
  }
  return names;
}

std::string Context::operation() const {
  const std::string text = to_string(current_);
  if (current_peer_ < 0) return text;
  const bool sends = current_.kind == CollectiveKind::kSend;
  return text + (sends ? " to rank " : " from rank ") + number(current_peer_);
}

}  // namespace ddp::shm
