// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm_context.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "ddp/base/error.h"

namespace ddp::shm {
namespace {

// How long a sleeper stays away from the question whether its peers are alive; a dead peer is
// noticed after at most this.
constexpr Timeout kLivenessPeriod(50);

// Spinning helps while every rank has a CPU; it costs the peers theirs otherwise.
constexpr int kSpins = 300;

constexpr std::uint32_t kCauseNone = 0;
constexpr std::uint32_t kCauseWriting = 1;
constexpr std::uint32_t kCauseComplete = 2;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Sleeps while `word` holds `seen`, at most for `timeout`. The futex is shared between processes.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen, Timeout timeout) {
  const timespec limit{timeout.count() / 1000, (timeout.count() % 1000) * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

constexpr std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

constexpr std::size_t kPage = 4096;

// Differs between builds whose segments differ, and from what a reused descriptor may lead to.
constexpr std::uint64_t kLayout =
    (std::uint64_t{0x6464702d73686d31} * 31 + sizeof(RankControl)) * 31 + sizeof(Channel) * 31 +
    kSlotBytes;

struct Layout {
  explicit Layout(int world_size)
      : ranks(static_cast<std::size_t>(world_size)),
        controls(round_up(sizeof(Header), kPage)),
        channels(controls + round_up(ranks * sizeof(RankControl), kPage)),
        slots(channels + round_up(ranks * ranks * sizeof(Channel), kPage)),
        size_bytes(slots + ranks * 2 * kSlotBytes) {}

  std::size_t ranks;
  std::size_t controls;  // offsets
  std::size_t channels;
  std::size_t slots;
  std::size_t size_bytes;
};

int usable_cpus() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::exception_ptr make_error(Cause cause, const std::string& text) {
  switch (cause) {
    case Cause::kTimeout:
      return std::make_exception_ptr(TimeoutError(text));
    case Cause::kMismatch:
      return std::make_exception_ptr(MismatchError(text));
    case Cause::kPeer:
      break;
  }
  return std::make_exception_ptr(PeerError(text));
}

std::string number(std::int64_t value) { return std::to_string(value); }

}  // namespace

Context::Context(const GroupConfig& config, std::shared_ptr<FlightRecorder> recorder)
    : rank_(config.rank),
      world_size_(config.world_size),
      timeout_(config.timeout),
      recorder_(std::move(recorder)),
      size_bytes_(Layout(config.world_size).size_bytes),
      spins_(config.world_size <= usable_cpus() ? kSpins : 0) {
  if (rank_ == 0) {
    create_segment(config);
  } else {
    open_segment(config);
  }
}

Context::~Context() {
  if (memory_ != nullptr) ::munmap(memory_, size_bytes_);
}

// Rank 0 keeps the descriptor open until everybody has the segment.
void Context::create_segment(const GroupConfig& config) {
  const FileDescriptor file(::memfd_create("ddp-shm", MFD_CLOEXEC));
  if (!file.is_open()) throw SystemError("[shm] cannot create shared memory", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(size_bytes_)) != 0) {
    throw SystemError(
        "[shm] cannot size shared memory to " + number(std::int64_t(size_bytes_)) + " bytes",
        errno);
  }
  map_segment(file.get());
  reinterpret_cast<Header*>(memory_)->layout = kLayout;
  control(0).pid = ::getpid();
  config.store->set("shm/segment", "/proc/" + number(::getpid()) + "/fd/" + number(file.get()));
  std::vector<std::string> keys;
  for (int other = 1; other < world_size_; ++other) keys.push_back("shm/ready/" + number(other));
  config.store->wait(keys, config.start_timeout);
  config.store->set("shm/complete", "");
  start_watch();
}

void Context::open_segment(const GroupConfig& config) {
  const std::string path = config.store->get("shm/segment", config.start_timeout);
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) {
    throw SystemError("[shm] rank " + number(rank_) + " cannot open rank 0's shared memory " +
                          path + " (ranks in different containers or of different users?)",
                      errno);
  }
  struct stat status {};
  const bool fits =
      ::fstat(file.get(), &status) == 0 && static_cast<std::size_t>(status.st_size) == size_bytes_;
  if (fits) map_segment(file.get());
  if (!fits || reinterpret_cast<const Header*>(memory_)->layout != kLayout) {
    throw MismatchError("[shm] " + path + " is not the shared memory of this build of libddp");
  }
  control(rank_).pid = ::getpid();
  config.store->set("shm/ready/" + number(rank_), "");
  (void)config.store->get("shm/complete", config.start_timeout);
  start_watch();
}

void Context::start_watch() {
  std::vector<pid_t> pids;
  for (int other = 0; other < world_size_; ++other) pids.push_back(control(other).pid);
  watch_.emplace(pids);
}

void Context::map_segment(int fd) {
  void* memory = ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw SystemError("[shm] cannot map " + number(std::int64_t(size_bytes_)) + " bytes", errno);
  }
  memory_ = static_cast<std::byte*>(memory);
}

RankControl& Context::control(int rank) const {
  auto* controls = reinterpret_cast<RankControl*>(memory_ + Layout(world_size_).controls);
  return controls[rank];
}

std::byte* Context::slot(int rank, std::uint32_t half) const {
  const std::size_t index = static_cast<std::size_t>(rank) * 2 + half;
  return memory_ + Layout(world_size_).slots + index * kSlotBytes;
}

Channel& Context::channel(int src, int dst) const {
  auto* channels = reinterpret_cast<Channel*>(memory_ + Layout(world_size_).channels);
  return channels[src * world_size_ + dst];
}

void Context::begin_transfer(const CollectiveSignature& signature, int peer) {
  current_ = signature;
  current_peer_ = peer;
}

void Context::begin_collective(const CollectiveSignature& signature) {
  current_ = signature;
  current_peer_ = -1;
  last_collective_ = signature.sequence;
  const std::size_t parity = signature.sequence % 2;
  control(rank_).signatures[parity] = signature;
  control(rank_).collective.store(signature.sequence, std::memory_order_release);
  meet();
  const CollectiveSignature& first = control(0).signatures[parity];
  for (int other = 1; other < world_size_; ++other) {
    const CollectiveSignature& theirs = control(other).signatures[parity];
    if (theirs == first) continue;
    std::rethrow_exception(
        fail(Cause::kMismatch, "[shm] " + mismatch_message(0, first, other, theirs)));
  }
}

void Context::end_collective() { control(rank_).collective.store(0, std::memory_order_relaxed); }

// A rank rings everybody, since everybody may be waiting for the last one to arrive.
void Context::meet() {
  control(rank_).phase.store(++phase_, std::memory_order_release);
  for (int other = 0; other < world_size_; ++other) {
    if (other != rank_) ring(other);
  }
  wait_until([this] { return all_arrived(); });
}

bool Context::all_arrived() const {
  for (int other = 0; other < world_size_; ++other) {
    const std::uint32_t theirs = control(other).phase.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(theirs - phase_) < 0) return false;
  }
  return true;
}

// Sequential consistency pairs this with sleep_until: either the sleeper sees the change before it
// sleeps, or we see that it sleeps.
void Context::ring(int rank) const {
  RankControl& target = control(rank);
  target.doorbell.fetch_add(1, std::memory_order_seq_cst);
  if (target.sleeping.load(std::memory_order_seq_cst) != 0) wake(target.doorbell);
}

void Context::sleep_until(const std::function<bool()>& ready) {
  RankControl& self = control(rank_);
  const Deadline deadline = Deadline::after(timeout_);
  for (;;) {
    self.sleeping.store(1, std::memory_order_seq_cst);
    const std::uint32_t seen = self.doorbell.load(std::memory_order_seq_cst);
    if (ready()) break;
    check_peers(ready);
    if (deadline.passed()) time_out();
    sleep_while(self.doorbell, seen, std::min(kLivenessPeriod, deadline.remaining()));
  }
  self.sleeping.store(0, std::memory_order_relaxed);
}

// The diagnosis says more than we can: who is missing, and where it is.
void Context::time_out() {
  const std::string diagnosis = recorder_->diagnosis();
  const std::string text =
      "[shm] rank " + number(rank_) + ": timed out after " + number(timeout_.count()) + " ms" +
      (diagnosis.empty() ? " in " + operation() + late_ranks() : ": " + diagnosis);
  std::rethrow_exception(fail(Cause::kTimeout, text));
}

void Context::check_peers(const std::function<bool()>& ready) {
  if (leaving_.load()) throw PeerError("[shm] the process group was destroyed");
  if (const std::exception_ptr error = recorded_error()) std::rethrow_exception(error);
  for (int other = 0; other < world_size_; ++other) {
    if (other != rank_) check_peer(other, ready);
  }
  if (Clock::now() >= next_look_) next_look_ = Clock::now() + kLivenessPeriod;
}

// A rank may go once it has done its part, and then even exit. So a death is read before `left`,
// which then shows all that came before the death, and `ready` after both.
void Context::check_peer(int other, const std::function<bool()>& ready) {
  check_peer_call(other, ready);
  const bool is_dead = Clock::now() >= next_look_ && watch_->is_dead(other);
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
void Context::check_peer_call(int other, const std::function<bool()>& ready) {
  const std::uint64_t theirs = control(other).collective.load(std::memory_order_acquire);
  if (current_peer_ != other || theirs <= last_collective_ || ready()) return;
  std::rethrow_exception(
      fail(Cause::kMismatch, "[shm] ranks called different collectives: rank " + number(other) +
                                 " called " + to_string(control(other).signatures[theirs % 2]) +
                                 ", rank " + number(rank_) + " called " + operation()));
}

// True if the running operation needs something more from that rank.
bool Context::is_awaited(int other) const {
  if (current_peer_ >= 0) return current_peer_ == other;
  return static_cast<std::int32_t>(control(other).phase.load() - phase_) < 0;
}

std::exception_ptr Context::recorded_error() const {
  const auto* header = reinterpret_cast<const Header*>(memory_);
  if (header->cause_state.load(std::memory_order_acquire) != kCauseComplete) return nullptr;
  return make_error(header->cause, header->text);
}

std::exception_ptr Context::fail(Cause cause, const std::string& text) {
  auto* header = reinterpret_cast<Header*>(memory_);
  std::uint32_t none = kCauseNone;
  if (header->cause_state.compare_exchange_strong(none, kCauseWriting)) {
    header->cause = cause;
    const std::size_t length = std::min(text.size(), sizeof(header->text) - 1);
    std::memcpy(header->text, text.data(), length);
    header->cause_state.store(kCauseComplete, std::memory_order_release);
  }
  for (int other = 0; other < world_size_; ++other) ring(other);
  const std::exception_ptr recorded = recorded_error();
  return recorded ? recorded : make_error(cause, text);
}

void Context::leave() {
  leaving_.store(true);
  control(rank_).left.store(1);
  for (int other = 0; other < world_size_; ++other) ring(other);
}

std::string Context::late_ranks() const {
  if (current_peer_ >= 0) return ": waiting for rank " + number(current_peer_);
  std::string names;
  for (int other = 0; other < world_size_; ++other) {
    if (!is_awaited(other)) continue;
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
