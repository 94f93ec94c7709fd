// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ddp/base/time.h"
#include "ddp/store/store.h"
#include "launcher/nodes/node.h"
#include "launcher/nodes/node_life.h"
#include "launcher/nodes/node_plan.h"

namespace ddp::launcher {

// This node's entry in the store, by which the others know it. The destructor removes it unless it
// is kept.
class Registration {
 public:
  explicit Registration(const Node& self);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // True if this node is entered in that store. A claim may have been stored although its answer
  // was lost.
  [[nodiscard]] bool is_in(Store& store) const;
  // Enters this node under the requested rank or the first free one, and returns the rank. Throws
  // LaunchError if living launchers hold it. Returns nothing while it is not known whether they
  // live, and while a job runs in which a dead one has a part; before that, a dead one is replaced.
  // Call it again after a moment then.
  [[nodiscard]] std::optional<int> make(std::shared_ptr<Store> store, const NodePlan& plan);
  // What make() waits for.
  [[nodiscard]] const std::string& obstacle() const { return obstacle_; }
  // Call it often while the others are awaited.
  void show_life();
  // Whether the nodes that have met, as kMetKey lists them, include this one.
  [[nodiscard]] bool is_among(const std::string& met) const;

  void keep() { store_.reset(); }

 private:
  [[nodiscard]] std::string claim(int rank, const std::string& from);
  [[nodiscard]] bool replace(int rank, const std::string& entry);
  void remove();

  std::string own_;
  std::shared_ptr<Store> store_;
  int rank_ = 0;                     // that was claimed last
  std::map<int, NodeLife> holders_;  // of the ranks that this node wants
  std::string obstacle_;
  Deadline next_sign_ = Deadline::after(Timeout(0));
};

}  // namespace ddp::launcher
