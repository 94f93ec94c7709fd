// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/hang_watch.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "ddp/base/busy_with.h"
#include "ddp/base/error.h"
#include "ddp/collectives/group_names.h"

namespace ddp {
namespace {

constexpr const char* kDiagnosis = "hang/diagnosis";

std::string progress_key(int rank) { return "progress/" + std::to_string(rank); }

Timeout host_clock() {
  return std::chrono::duration_cast<Timeout>(Clock::now().time_since_epoch());
}

// The first line of a published diagnosis, by which readers recognise the collective it is about.
std::string subject(const Hang& hang) { return hang.group + " " + hang.operation + "\n"; }

}  // namespace

HangWatch::HangWatch(std::shared_ptr<Store> store, RankIdentity self,
                     const HangWatchOptions& options, Report report)
    : store_(std::move(store)),
      options_(options),
      report_(std::move(report)),
      progress_{.who = std::move(self)},
      window_(store_, progress_.who.rank, options.window) {
  introduce();
  thread_.emplace("ddp-hang", options.period, [this] { return look(); });
}

// Publishes this rank before any other can wait for it: it may be stopped before its thread has run
// at all.
void HangWatch::introduce() {
  try {
    publish({});
  } catch (const Error& error) {
    logging::debug("[hang_watch] " + describe(error));  // the thread will retry
  }
}

void HangWatch::add(const std::string& group, std::vector<int> job_ranks,
                    const std::shared_ptr<FlightRecorder>& recorder, const std::string& aspect) {
  const std::lock_guard lock(mutex_);
  forget_ended();  // also here, since many groups may come and go between two checks
  watched_.push_back({.name = group + aspect,
                      .of_group = of_group(group),
                      .job_ranks = std::move(job_ranks),
                      .recorder = recorder});
}

// Call it under mutex_. A weak pointer keeps the memory of what make_shared has made.
void HangWatch::forget_ended() {
  std::erase_if(watched_, [](const Watched& each) { return each.recorder.expired(); });
}

std::optional<std::uint64_t> HangWatch::collectives_of(int rank, const std::string& group) const {
  const auto published = store_->find(progress_key(rank));
  if (!published) return std::nullopt;
  const RankProgress progress = parse_rank_progress(*published);
  const GroupProgress* found = progress.find(group);
  return found == nullptr ? std::nullopt : std::optional(found->collectives);
}

bool HangWatch::look() {
  const std::vector<Group> groups = look_at_groups();
  try {
    communicate(groups);
  } catch (const TimeoutError&) {
    blame_store(groups);
    throw;
  }
  return true;
}

void HangWatch::communicate(const std::vector<Group>& groups) {
  publish(groups);
  window_.look();
  const Group* oldest = longest_pending(groups);
  if (oldest == nullptr) {
    life_signs_.clear();
  } else if (window_.lead()) {
    investigate(*oldest);
  } else {
    adopt_diagnosis(*oldest);
  }
}

// Without the store, the ranks cannot agree on a reporter. Rank 0 may host it.
void HangWatch::blame_store(const std::vector<Group>& groups) {
  const Group* oldest = longest_pending(groups);
  if (oldest == nullptr) return;
  const std::string diagnosis = diagnose_silent_store(*oldest->hang);
  for (const Group& group : groups) {
    if (group.hang) group.recorder->hang().set_diagnosis(diagnosis);
  }
  const bool is_reporter = progress_.who.rank == 1;
  if (!is_reporter || oldest->hang->age < options_.patience) return;
  if (window_.may_report_without_store()) report_(diagnosis);
}

const HangWatch::Group* HangWatch::longest_pending(const std::vector<Group>& groups) {
  const auto oldest =
      std::max_element(groups.begin(), groups.end(), [](const Group& left, const Group& right) {
        return right.hang && (!left.hang || left.hang->age < right.hang->age);
      });
  return oldest != groups.end() && oldest->hang ? &*oldest : nullptr;
}

std::vector<HangWatch::Group> HangWatch::look_at_groups() {
  const std::lock_guard lock(mutex_);
  forget_ended();
  std::vector<Group> groups;
  for (Watched& each : watched_) {
    Group group{.name = each.name, .job_ranks = each.job_ranks, .recorder = each.recorder.lock()};
    if (!group.recorder) continue;
    group.position = group.recorder->position();
    group.hang = find_hang(each, group);
    if (!group.hang) group.recorder->hang().set_diagnosis("");
    groups.push_back(std::move(group));
  }
  return groups;
}

// Reads the ring only if nothing was completed since the last check.
std::optional<Hang> HangWatch::find_hang(Watched& watched, const Group& group) const {
  const bool moved = std::exchange(watched.done, group.position.done) != group.position.done;
  if (moved || group.position.submitted <= group.position.done) return std::nullopt;
  group.recorder->hang().remind();  // it may be pending only because no thread has waited for it
  const auto pending = group.recorder->oldest_pending();
  if (!pending) return std::nullopt;
  const auto age = std::chrono::duration_cast<Timeout>(Clock::now() - pending->since);
  if (age < options_.patience / 2) return std::nullopt;
  const auto describe = [&](const FlightRecorder::Event& event) {
    return describe_operation(*group.recorder, event) + watched.of_group;
  };
  const auto transfers = [](const FlightRecorder::Event& event) {
    return is_transfer(event.signature.kind);
  };
  const auto collective = std::ranges::find_if_not(pending->operations, transfers);
  const bool only_transfers = collective == pending->operations.end();
  const FlightRecorder::Event& main = only_transfers ? pending->operations.front() : *collective;
  const auto self = std::ranges::find(group.job_ranks, progress_.who.rank);
  Hang hang{.group = group.name,
            .self = static_cast<int>(self - group.job_ranks.begin()),
            .operation = describe(main),
            .signature = main.signature,
            .age = age,
            .step = main.step};
  if (!only_transfers) return hang;
  for (const FlightRecorder::Event& event : pending->operations) {
    hang.transfers.push_back({.peer = event.signature.root, .operation = describe(event)});
  }
  return hang;
}

void HangWatch::publish(const std::vector<Group>& groups) {
  ++progress_.heartbeat;
  progress_.time_ms = host_clock().count();
  progress_.is_inside = false;
  progress_.busy_with = busy_with();
  progress_.step = 0;
  progress_.is_in_step = false;
  progress_.has_left_step = false;
  progress_.groups.clear();
  for (const Group& group : groups) {
    progress_.groups.push_back({group.name, group.position.collectives,
                                group.hang ? group.hang->operation : std::string(),
                                group.recorder->hang().awaited()});
    progress_.is_inside = progress_.is_inside || group.position.is_inside;
    if (group.position.step < progress_.step) continue;
    progress_.step = group.position.step;
    progress_.is_in_step = group.position.is_in_step;
    progress_.has_left_step = group.position.has_left_step;
  }
  store_->set(progress_key(progress_.who.rank), serialize(progress_));
}

// A hanging send or recv concerns its peer only, and every rank that waits looks for itself.
std::string HangWatch::find_out(const Group& group) {
  std::set<int> peers;
  for (const Hang::Transfer& transfer : group.hang->transfers) peers.insert(transfer.peer);
  std::vector<Witness> members;
  for (const int rank : group.job_ranks) {
    const bool matters = peers.empty() || peers.contains(static_cast<int>(members.size()));
    members.push_back(matters ? question(rank) : Witness{.rank = rank});
  }
  return diagnose(*group.hang, members);
}

void HangWatch::investigate(const Group& group) {
  const std::string diagnosis = find_out(group);
  store_->set(kDiagnosis, subject(*group.hang) + diagnosis);
  group.recorder->hang().set_diagnosis(diagnosis);
  if (group.hang->age >= options_.patience && window_.may_report()) report_(diagnosis);
}

void HangWatch::adopt_diagnosis(const Group& group) {
  const auto published = store_->find(kDiagnosis);
  if (!published) return;
  const std::string expected = subject(*group.hang);
  // Each rank counts its own sends and receives, and has its own peers.
  const bool is_ours = group.hang->transfers.empty() && published->starts_with(expected);
  group.recorder->hang().set_diagnosis(is_ours ? published->substr(expected.size())
                                               : find_out(group));
}

Witness HangWatch::question(int rank) {
  Witness witness{.rank = rank};
  const auto published = store_->find(progress_key(rank));
  if (!published) return witness;
  witness.progress = parse_rank_progress(*published);
  witness.state = state_of(witness.progress->who);
  LifeSign& life = life_signs_.try_emplace(rank, 2 * options_.period).first->second;
  const Timeout silence = life.silence(witness.progress->heartbeat);
  if (silence > 3 * options_.period) witness.silence = silence;
  const bool lives = witness.state != ProcessState::kStopped &&
                     witness.state != ProcessState::kEnded && witness.silence == Timeout(0);
  if (lives) return witness;
  witness.told_before = witness.silence;
  const bool is_on_this_host = witness.state != ProcessState::kUnknown;
  if (is_on_this_host) {  // so it reads the same clock
    const Timeout age = host_clock() - Timeout(witness.progress->time_ms);
    witness.told_before = std::max(age, witness.silence);
  }
  return witness;
}

}  // namespace ddp
