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
#include "launcher/other_nodes.h"

namespace ddp::launcher {

// The other nodes of a job on several: launchers tell each other through the store that they live,
// which of them saw the first failure of a generation, and that its workers are gone. A thread with
// a store connection of its own does all the talking; the poll loop wakes by fd().
//
// Keys, under the launchers' prefix: alive/<node> counts signs of life; gen/<g>/open says that the
// store is ready for the workers, gen/<g>/claim is the node that saw the first failure, behind
// which stands the number of the signal if it was one ("1 15"), gen/<g>/failure what it says of it,
// gen/<g>/ended/<node> that its workers are gone; stop says that the job is to end by itself. To
// say one of these twice does no harm, and it is said again if the store has not answered.
class NodeWatch : public OtherNodes {
 public:
  explicit NodeWatch(Meeting meeting);
  ~NodeWatch() override;
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  void begin(int generation) override;
  void open() override;
  [[nodiscard]] int fd() const override { return event_.get(); }
  [[nodiscard]] News news() override;
  void claim_failure() override;
  void claim_stop(int signal_number) override;
  void end_generation() override;
  void request_stop() override;
  [[nodiscard]] std::string agree_on_failure(const std::string& own) override;
  [[nodiscard]] bool wait_for_all() override;
  void leave() override;

  static constexpr Timeout kSignOfLife{500};
  static constexpr Timeout kVanished = std::chrono::seconds(15);

 private:
  // What is still to be told.
  struct Words {
    std::string claim = {};  // of the first failure
    bool ends = false;
    bool stops = false;

    [[nodiscard]] bool any() const { return !claim.empty() || ends || stops; }
  };
  struct Peer {
    std::int64_t signs = 0;
    Clock::time_point since;
  };

  template <typename T>
  void say(T Words::*word, T what);
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
