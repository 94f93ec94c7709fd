// SPDX-License-Identifier: MIT
#include "launcher/nodes/node_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/printable.h"
#include "ddp/base/threads/background_thread.h"
#include "launcher/nodes/node_keys.h"

namespace ddp::launcher {
namespace {

// The delay after which other nodes learn of a failure.
constexpr Timeout kBetweenTalks{100};
constexpr Timeout kBetweenLooks{10};
// Launchers that still run answer within this time.
constexpr Timeout kInterruptedWait{1000};
// An unreachable store must not delay the end of this launcher for long.
constexpr Timeout kStoreTimeout = kBackgroundStoreTimeout;
// A firewall that is set up anew may refuse connections for a moment.
constexpr Timeout kReconnectFor{1000};
constexpr std::size_t kLongestLoss = 1000;
constexpr Timeout kTimeToRead = 3 * kSignPeriod;  // for a node to read in the store what is new

std::string generation_key(int generation) { return "gen/" + std::to_string(generation); }

struct Claim {
  int node = 0;
  std::optional<int> signal = {};
};

// Nothing if there is no such node or signal: anybody who can reach the store may have written it.
std::optional<Claim> parse_claim(const std::string& text, int node_count) {
  std::istringstream numbers(text);
  Claim claim;
  if (!(numbers >> claim.node) || claim.node < 0 || claim.node >= node_count) return std::nullopt;
  int signal_number = 0;
  if (!(numbers >> signal_number)) return claim;
  if (signal_number < 1 || signal_number > SIGRTMAX) return std::nullopt;
  claim.signal = signal_number;
  return claim;
}

int whole_seconds(Timeout time) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

}  // namespace

// How long this launcher waits for the others at the end of a job. Once it is interrupted, the
// others are told to hurry. Not to be used under mutex_.
class NodeWatch::WaitLimit {
 public:
  WaitLimit(NodeWatch& watch, Timeout timeout) : watch_(watch), end_(Deadline::after(timeout)) {}

  [[nodiscard]] bool passed() {
    if (!is_cut_ && watch_.is_interrupted_()) {
      is_cut_ = true;
      end_ = Deadline::after(std::min(end_.remaining(), kInterruptedWait));
      watch_.hurry();
    }
    return end_.passed();
  }
  [[nodiscard]] Timeout next_look() const { return std::min(end_.remaining(), kBetweenTalks); }

 private:
  NodeWatch& watch_;
  Deadline end_;
  bool is_cut_ = false;
};

// A futile check of the store takes at most kStoreTimeout, and only that much counts as its
// silence.
NodeWatch::NodeWatch(Meeting meeting, const SignsOfLife& signs,
                     std::function<bool()> is_interrupted)
    : meeting_(std::move(meeting)),
      signs_(signs),
      is_interrupted_(std::move(is_interrupted)),
      store_life_(kStoreTimeout),
      next_sign_of_life_(Deadline::after(Timeout(0))),
      generation_(generation_key(0)),
      news_({.is_open = true}) {
  const bool watches_all = meeting_.self == 0;
  const int end = watches_all ? node_count() : 1;
  for (int node = watches_all ? 1 : 0; node < end; ++node) {
    peers_.push_back({node, LifeSign(2 * signs_.period)});
  }
  thread_ = start_background_thread("ddp-nodes", [this] { run(); });
}

NodeWatch::~NodeWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string NodeWatch::describe(int node) const {
  return describe_node(node, meeting_.nodes[static_cast<std::size_t>(node)].host);
}

void NodeWatch::begin(int generation) {
  const std::lock_guard lock(mutex_);
  generation_ = generation_key(generation);
  said_ = said_.lasting();
  written_ = written_.lasting();
  news_ = {.lost = std::move(news_.lost),
           .is_open = generation == 0,
           .stop_requested = news_.stop_requested,
           .worker_stopped = news_.worker_stopped,
           .hurried_by = news_.hurried_by};
}

// Only the main thread changes generation_.
void NodeWatch::open() { fresh_store()->set(generation_ + "/open", "1"); }

// The connection of the meeting is idle while workers run, and a firewall may forget it.
std::shared_ptr<Store> NodeWatch::fresh_store() const {
  return meeting_.store->clone(is_interrupted_() ? kInterruptedWait : kStoreTimeout);
}

OtherNodes::News NodeWatch::news() {
  wake_up_.acknowledge();
  const std::lock_guard lock(mutex_);
  return news_;
}

void NodeWatch::claim_failure() { say(&Words::claim, std::to_string(meeting_.self)); }

void NodeWatch::claim_stop(int signal_number) {
  say(&Words::claim, fmt::format("{} {}", meeting_.self, signal_number));
}

void NodeWatch::end_generation() { say(&Words::ends, true); }

void NodeWatch::request_stop() { say(&Words::stops, true); }

void NodeWatch::tell_stop_of_worker() { say(&Words::worker_stopped, true); }

void NodeWatch::hurry() { say(&Words::hurries, true); }

template <typename T>
void NodeWatch::say(T Words::*word, T what) {
  {
    const std::lock_guard lock(mutex_);
    said_.*word = std::move(what);
  }
  changed_.notify_all();
}

std::optional<std::string> NodeWatch::agree_on_failure(const std::string& own) {
  const News news = await([](const News& now) { return now.is_bad(); });
  if (!news.failed_node) return own;
  const std::string key = generation_ + "/failure";
  if (*news.failed_node != meeting_.self) return await_failure(key);
  try {
    fresh_store()->set(key, own);
  } catch (const Error&) {
    // The others learn only that this node has failed.
  }
  return own;
}

bool NodeWatch::wait_for_all() {
  const auto is_known = [](const News& now) { return now.have_all_ended || !now.lost.empty(); };
  return await(is_known).have_all_ended;
}

// `holds` is called under mutex_.
template <typename Condition>
void NodeWatch::await(WaitLimit& limit, const Condition& holds) {
  while (!limit.passed()) {
    std::unique_lock lock(mutex_);
    if (holds()) return;
    changed_.wait_for(lock, limit.next_look());
  }
}

OtherNodes::News NodeWatch::await(bool (*are_enough)(const News&)) {
  WaitLimit limit(*this, signs_.vanished + 4 * signs_.period);  // so that a loss is seen
  await(limit, [&] { return are_enough(news_); });
  const std::lock_guard lock(mutex_);
  return news_;
}

// The failed node may vanish while it is waited for, which is known only after signs_.vanished.
std::optional<std::string> NodeWatch::await_failure(const std::string& key) {
  WaitLimit limit(*this, 2 * signs_.vanished);
  std::shared_ptr<Store> store;
  while (!has_lost_node() && !limit.passed()) {
    try {
      if (!store) store = fresh_store();
      if (store->wait_for(key, limit.next_look())) return store->get(key);
    } catch (const Error&) {  // the thread is about to notice, too, unless it was this connection
      store.reset();
      std::this_thread::sleep_for(kBetweenTalks);
    }
  }
  return std::nullopt;
}

bool NodeWatch::has_lost_node() {
  const std::lock_guard lock(mutex_);
  return !news_.lost.empty();
}

// The thread may not have written yet what this node has said last. The store ends with node 0, and
// the others may not have read there yet that a node is lost. Then others may be lost with it,
// which nobody tells: a node that lives reads it within a few periods.
void NodeWatch::leave() {
  WaitLimit limit(*this, has_lost_node() ? kTimeToRead : kStoreTimeout);
  await(limit, [this] { return said_ == written_ || !news_.lost.empty(); });
  {
    const std::lock_guard lock(mutex_);
    if (store_is_gone_) return;
  }
  const auto can_leave = [this] { return node_count() - (has_lost_node() ? 1 : 0); };
  try {
    const std::shared_ptr<Store> store = fresh_store();
    auto left = store->add(kLeftKey, 1);
    while (meeting_.self == 0 && left < can_leave() && !limit.passed()) {
      std::this_thread::sleep_for(kBetweenLooks);
      left = store->add(kLeftKey, 0);
    }
  } catch (const Error&) {
    // A node that cannot reach the store need not be waited for.
  }
}

void NodeWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && news_.lost.empty()) {
    lock.unlock();
    talk();
    lock.lock();
    changed_.wait_for(lock, kBetweenTalks, [this] { return stopping_ || said_ != written_; });
  }
}

// A slow store may answer the next time, and a connection that has broken is made anew then.
void NodeWatch::talk() {
  std::unique_lock lock(mutex_);
  const std::string generation = generation_;
  const Words said = said_, written = written_;
  lock.unlock();
  try {
    // Here, so that a node 0 that has just died is lost, and not an error of this launcher's start.
    if (!store_) store_ = meeting_.store->clone(break_.empty() ? kStoreTimeout : kReconnectFor);
    tell(generation, said, written);
    look(generation);
    exchange_signs_of_life();
    store_life_.silence(++store_answers_);
    break_.clear();
  } catch (const Error& error) {
    const bool is_late = dynamic_cast<const TimeoutError*>(&error) != nullptr;
    if (is_late && store_life_.silence(store_answers_) < signs_.vanished) return;
    if (!is_late && store_ && break_.empty()) {
      break_ = ddp::describe(error);
      store_.reset();
      return;
    }
    const std::lock_guard relock(mutex_);
    store_is_gone_ = true;
    lose(describe(0) +
         " cannot be reached any more: " + (break_.empty() ? ddp::describe(error) : break_));
  }
}

// After an error, the same is written again.
void NodeWatch::tell(const std::string& generation, const Words& said, const Words& written) {
  if (said.stops && !written.stops) store_->set("stop", "1");
  if (said.worker_stopped && !written.worker_stopped) store_->set("worker_stopped", "1");
  if (said.hurries && !written.hurries) claim("hurry", std::to_string(meeting_.self));
  if (said.claim != written.claim) claim(generation + "/claim", said.claim);
  if (said.ends && !written.ends) {
    store_->set(generation + "/ended/" + std::to_string(meeting_.self), "1");
  }
  const std::lock_guard lock(mutex_);
  written_ = generation == generation_ ? said : said.lasting();
  changed_.notify_all();
}

// The first node that writes the key has it. What names no node must not keep it from them.
void NodeWatch::claim(const std::string& key, const std::string& own) {
  const std::string holder = store_->compare_set(key, "", own);
  if (!parse_claim(holder, node_count())) store_->compare_set(key, holder, own);
}

// Reads first who has ended, then whether a node has failed or was asked to stop. A node writes the
// latter before the former, so a node that has ended without a claim has ended well.
void NodeWatch::look(const std::string& generation) {
  const bool is_open = generation == generation_key(0) || store_->has(generation + "/open");
  const bool all_ended = have_all_ended(generation);
  const auto failure = parse_claim(store_->find(generation + "/claim").value_or(""), node_count());
  const bool stop_requested = store_->has("stop");
  const bool worker_stopped = store_->has("worker_stopped");
  const auto hurry = parse_claim(store_->find("hurry").value_or(""), node_count());
  const std::lock_guard lock(mutex_);
  if (generation != generation_) return;
  News seen{.lost = news_.lost,
            .is_open = is_open,
            .have_all_ended = all_ended,
            .stop_requested = stop_requested,
            .worker_stopped = worker_stopped};
  if (failure) seen.failed_node = failure->node;
  if (failure) seen.stop_signal = failure->signal;
  if (hurry) seen.hurried_by = hurry->node;
  if (seen == news_) return;
  news_ = seen;
  wake_poll_loop();
  changed_.notify_all();
}

bool NodeWatch::have_all_ended(const std::string& generation) {
  const std::string all_ended = generation + "/all_ended";
  if (meeting_.self != 0) return store_->has(all_ended);
  std::vector<std::string> ends;
  for (int node = 0; node < node_count(); ++node) {
    ends.push_back(generation + "/ended/" + std::to_string(node));
  }
  if (!store_->check(ends)) return false;
  store_->set(all_ended, "1");
  return true;
}

void NodeWatch::exchange_signs_of_life() {
  if (!next_sign_of_life_.passed()) return;
  next_sign_of_life_ = Deadline::after(signs_.period);
  store_->add(alive_key(meeting_.self), 1);
  for (Peer& peer : peers_) {
    const auto signs = static_cast<std::uint64_t>(store_->add(alive_key(peer.node), 0));
    if (peer.life.silence(signs) < signs_.vanished) continue;
    const std::string& host = meeting_.nodes[static_cast<std::size_t>(peer.node)].host;
    store_->compare_set(
        kLostKey, "",
        fmt::format("{} has vanished: no sign of life for {} s", describe_node(peer.node, host),
                    whole_seconds(signs_.vanished)));
  }
  read_loss();
}

// The first report counts for all nodes. Anybody may have written it.
void NodeWatch::read_loss() {
  const std::optional<std::string> sentence = store_->find(kLostKey);
  if (!sentence) return;
  const std::lock_guard lock(mutex_);
  lose(shortened(printable(*sentence), kLongestLoss));
}

// Called under mutex_.
void NodeWatch::lose(const std::string& sentence) {
  if (!news_.lost.empty()) return;
  news_.lost = sentence;
  wake_poll_loop();
  changed_.notify_all();
}

void NodeWatch::wake_poll_loop() const { wake_up_.wake(); }

}  // namespace ddp::launcher
