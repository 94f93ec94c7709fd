// SPDX-License-Identifier: MIT
#include "launcher/nodes/registration.h"

#include <fmt/core.h>

#include <exception>
#include <random>
#include <utility>

#include "launcher/launch_error.h"
#include "launcher/nodes/node_keys.h"

namespace ddp::launcher {
namespace {

// Makes the entry unique, since host names and pids repeat among containers.
std::string unique_line() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}\n", random(), random());
}

std::string describe_holder(int rank, const std::string& entry) {
  const Node holder = parse_node(entry);
  return fmt::format("node rank {} is taken by {} (launcher pid {})", rank, holder.host,
                     holder.launcher);
}

}  // namespace

Registration::Registration(const Node& self) : own_(serialize(self) + unique_line()) {}

Registration::~Registration() {
  try {
    if (store_) remove();
  } catch (const std::exception&) {
    // The store does not answer, so nobody can be told.
  }
}

void Registration::remove() {
  if (is_in(*store_)) store_->delete_key(node_key(rank_));
}

bool Registration::is_in(Store& store) const { return store.find(node_key(rank_)) == own_; }

std::optional<int> Registration::make(std::shared_ptr<Store> store, const NodePlan& plan) {
  store_ = std::move(store);
  if (is_in(*store_)) return rank_;
  const int first = plan.rank.value_or(1);
  const int end = plan.rank ? first + 1 : plan.count;
  for (int rank = first; rank < end; ++rank) {
    if (claim(rank, "") == own_) return rank;
  }
  bool do_all_live = true;
  std::string entry;
  for (int rank = first; rank < end; ++rank) {
    entry = store_->find(node_key(rank)).value_or("");
    if (entry.empty()) return std::nullopt;  // it has just left
    NodeLife& holder = holders_[rank];
    holder.look(entry, store_->add(alive_key(rank), 0));
    if (holder.is_dead() && replace(rank, entry)) return rank;
    if (!holder.has_moved()) do_all_live = false;
  }
  if (!do_all_live) {
    if (obstacle_.empty()) obstacle_ = describe_holder(end - 1, entry) + ": does it still live?";
    return std::nullopt;
  }
  if (!plan.rank) {
    throw LaunchError(
        fmt::format("the job at {} already has its {} nodes", to_string(plan.store), plan.count));
  }
  throw LaunchError(describe_holder(first, entry) +
                    ": each node needs a --node_rank of its own, and a store (--master_port) "
                    "serves one job");
}

// Returns the entry that now holds this rank.
std::string Registration::claim(int rank, const std::string& from) {
  rank_ = rank;
  return store_->compare_set(node_key(rank), from, own_);
}

bool Registration::replace(int rank, const std::string& entry) {
  if (!store_->has(kMetKey)) return claim(rank, entry) == own_;
  obstacle_ =
      describe_holder(rank, entry) + ", which shows no sign of life; its job must end first";
  return false;
}

void Registration::show_life() {
  if (!next_sign_.passed()) return;
  next_sign_ = Deadline::after(kSignPeriod);
  store_->add(alive_key(rank_), 1);
}

bool Registration::is_among(const std::string& met) const {
  return met.find(own_) != std::string::npos;
}

}  // namespace ddp::launcher
