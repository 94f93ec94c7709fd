// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/socket.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"
#include "launcher/nodes.h"

namespace ddp::launcher {

// What launchers tell each other while their workers run: that they live, which of them saw the
// first failure of a generation, and that its workers are gone. A thread with a store connection of
// its own does all the talking; the poll loop wakes by fd().
//
// Keys, under the launchers' prefix: alive/<node> counts signs of life; gen/<g>/open says that the
// store is ready for the workers, gen/<g>/claim is the node that saw the first failure,
// gen/<g>/failure what it says of it, gen/<g>/ended/<node> that its workers are gone; stop says
// that the job is to end by itself. To say one of these twice does no harm, and it is said again if
// the store has not answered.
class NodeWatch {
 public:
  // What is known of the generation.
  struct News {
    std::optional<int> failed_node = {};  // where the first failure was
    std::string lost = {};                // a sentence: which node cannot be reached any more
    bool is_open = false;                 // the store is ready for its workers
    bool have_all_ended = false;          // the workers of all nodes are gone
    bool stop_requested = false;          // of the whole job, by a signal to one of its launchers

    [[nodiscard]] bool is_bad() const { return failed_node.has_value() || !lost.empty(); }
    friend bool operator==(const News&, const News&) = default;
  };

  explicit NodeWatch(Meeting meeting);
  ~NodeWatch();
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  // All that follows is about this generation; at first it is 0, which is open. Those after it wait
  // for node 0 to open() them.
  void begin(int generation);
  void open();

  // Readable when there is news; read it by news().
  [[nodiscard]] int fd() const { return event_.get(); }
  [[nodiscard]] News news();

  // This node has seen a failure, which is the first unless another one's was.
  void claim_failure();
  // The workers of this node are gone.
  void end_generation();
  // This launcher was asked to let the job stop by itself.
  void request_stop();

  // Waits for what the failed node says of its failure, or, if it is this one, says it. The text is
  // empty if the failed node has vanished since.
  [[nodiscard]] std::string agree_on_failure(const std::string& own);

  // This launcher cannot go on, for what `own` says: the others are told, and the job is left.
  void give_up(const std::string& own);

  // Waits until the workers of all nodes are gone; false if a node cannot be reached, or theirs do
  // not end.
  [[nodiscard]] bool wait_for_all();

  // The job is over here. Node 0's launcher, which hosts the store, waits for the others to come to
  // this point.
  void leave();

  // "node 1 (gpu-b)"
  [[nodiscard]] std::string describe_self() const;

  static constexpr Timeout kSignOfLife{500};
  static constexpr Timeout kVanished = std::chrono::seconds(15);

 private:
  // What is still to be told.
  struct Words {
    bool claims = false;  // the first failure
    bool ends = false;
    bool stops = false;

    [[nodiscard]] bool any() const { return claims || ends || stops; }
  };
  struct Peer {
    std::int64_t signs = 0;
    Clock::time_point since;
  };

  void say(bool Words::*word);
  void run();
  void talk();
  void tell(const std::string& generation, const Words& words);
  void look(const std::string& generation);
  void exchange_signs_of_life();
  void lose(const std::string& sentence);
  void wake_poll_loop() const;

  Meeting meeting_;
  FileDescriptor event_;
  std::shared_ptr<Store> store_;  // the thread's
  std::vector<Peer> peers_;       // the thread's
  Clock::time_point answered_;    // the store, last; the thread's
  Deadline next_sign_of_life_;    // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string generation_;  // under mutex_, as are all below
  Words words_;
  bool stopping_ = false;
  News news_;
  std::thread thread_;
};

}  // namespace ddp::launcher
