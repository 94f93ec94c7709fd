// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/net/wake_up.h"
#include "ddp/base/threads/life_sign.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"
#include "launcher/nodes/meeting.h"
#include "launcher/nodes/node_keys.h"
#include "launcher/nodes/other_nodes.h"

namespace ddp::launcher {

// How often a launcher sends a heartbeat, and after what time without one its node is lost.
struct SignsOfLife {
  Timeout period = kSignPeriod;
  Timeout vanished = std::chrono::seconds(15);
};

// The other nodes of a job on several: through the store, launchers tell each other that they live,
// which of them saw the first failure of a generation, and that its workers have ended. A thread
// with its own store connection does all communication; the poll loop wakes by fd(). Node 0 watches
// all other nodes, and they watch node 0, so each of them reads a few keys however many nodes there
// are.
//
// Keys, under the launchers' prefix:
//   alive/<node>           counts the node's heartbeats (node_keys.h)
//   lost                   a sentence: the first node without heartbeats, or without an agent
//   gen/<g>/open           the store is ready for the workers
//   gen/<g>/claim          the node that saw the first failure or, as "1 15", node and signal
//   gen/<g>/failure        that node's description of the failure
//   gen/<g>/ended/<node>   the node's workers have ended
//   gen/<g>/all_ended      node 0 writes it: the workers of all nodes have ended
//   stop                   the workers should be asked to end by themselves
//   worker_stopped         somebody else has asked one of them
//   hurry                  the node whose user does not want to wait for them any longer
// A claim or hurry of a node that does not exist counts for nothing, and a real one replaces it.
// All writes are idempotent, and are repeated if the store has not answered.
class NodeWatch : public OtherNodes {
 public:
  // `is_interrupted` is asked by the calls that wait, on their thread: once it is true, they wait
  // for a second at most, and tell the others to hurry.
  explicit NodeWatch(
      Meeting meeting, const SignsOfLife& signs = {},
      std::function<bool()> is_interrupted = [] { return false; });
  ~NodeWatch() override;
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  [[nodiscard]] std::string describe(int node) const override;
  void begin(int generation) override;
  void open() override;
  [[nodiscard]] int fd() const override { return wake_up_.fd(); }
  [[nodiscard]] News news() override;
  void claim_failure() override;
  void claim_stop(int signal_number) override;
  void end_generation() override;
  void request_stop() override;
  void tell_stop_of_worker() override;
  void hurry() override;
  [[nodiscard]] std::optional<std::string> agree_on_failure(const std::string& own) override;
  [[nodiscard]] bool wait_for_all() override;
  void leave() override;

 private:
  struct Words {
    std::string claim = {};  // a claim of the first failure
    bool ends = false;
    bool stops = false;
    bool worker_stopped = false;
    bool hurries = false;

    // What also counts in the next generation.
    [[nodiscard]] Words lasting() const {
      return {.stops = stops, .worker_stopped = worker_stopped, .hurries = hurries};
    }
    friend bool operator==(const Words&, const Words&) = default;
  };
  struct Peer {
    int node;
    LifeSign life;
  };
  class WaitLimit;

  [[nodiscard]] int node_count() const { return static_cast<int>(meeting_.nodes.size()); }
  template <typename Condition>
  void await(WaitLimit& limit, const Condition& holds);
  [[nodiscard]] News await(bool (*are_enough)(const News&));
  [[nodiscard]] std::optional<std::string> await_failure(const std::string& key);
  [[nodiscard]] std::shared_ptr<Store> fresh_store() const;
  [[nodiscard]] bool has_lost_node();
  template <typename T>
  void say(T Words::*word, T what);
  void run();
  void talk();
  void tell(const std::string& generation, const Words& said, const Words& written);
  void claim(const std::string& key, const std::string& own);
  void look(const std::string& generation);
  [[nodiscard]] bool have_all_ended(const std::string& generation);
  void exchange_signs_of_life();
  void read_loss();
  void lose(const std::string& sentence);
  void wake_poll_loop() const;

  Meeting meeting_;
  SignsOfLife signs_;
  std::function<bool()> is_interrupted_;
  WakeUp wake_up_;
  std::shared_ptr<Store> store_;  // used only by the thread, like the five below
  std::vector<Peer> peers_;       // nodes that this node watches
  LifeSign store_life_;
  std::uint64_t store_answers_ = 0;
  std::string break_;  // what broke the connection in the last talk; empty if nothing did
  Deadline next_sign_of_life_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string generation_;  // under mutex_, like all below
  Words said_;              // what this node says in this generation
  Words written_;           // what of it the store has
  bool stopping_ = false;
  News news_;
  bool store_is_gone_ = false;
  std::thread thread_;
};

}  // namespace ddp::launcher
