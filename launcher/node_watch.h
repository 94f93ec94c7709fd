// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/life_sign.h"
#include "ddp/base/socket.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"
#include "launcher/nodes.h"
#include "launcher/other_nodes.h"

namespace ddp::launcher {

// How often a launcher gives a sign of life, and after how long without one it is taken for lost.
struct SignsOfLife {
  Timeout period{500};
  Timeout vanished = std::chrono::seconds(15);
};

// The other nodes of a job on several: launchers tell each other through the store that they live,
// which of them saw the first failure of a generation, and that its workers are gone. A thread with
// a store connection of its own does all the talking; the poll loop wakes by fd(). Node 0 watches
// all others for everybody, and they watch node 0, so that each of them asks for a few keys however
// many nodes there are.
//
// Keys, under the launchers' prefix: alive/<node> counts signs of life; lost is the sentence that
// says which node was the first without them; gen/<g>/open says that the store is ready for the
// workers, gen/<g>/claim is the node that saw the first failure, behind which stands the number of
// the signal if it was one ("1 15"), gen/<g>/failure what it says of it, gen/<g>/ended/<node> that
// its workers are gone, gen/<g>/all_ended that those of all nodes are, which node 0 finds out; stop
// says that the job is to end by itself. To say one of these twice does no harm, and it is said
// again if the store has not answered.
class NodeWatch : public OtherNodes {
 public:
  explicit NodeWatch(Meeting meeting, const SignsOfLife& signs = {});
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

 private:
  // What is still to be told.
  struct Words {
    std::string claim = {};  // of the first failure
    bool ends = false;
    bool stops = false;

    [[nodiscard]] bool any() const { return !claim.empty() || ends || stops; }
  };
  struct Peer {
    int node;
    LifeSign life;
  };

  [[nodiscard]] int node_count() const { return static_cast<int>(meeting_.nodes.size()); }
  template <typename T>
  void say(T Words::*word, T what);
  void run();
  void talk();
  void tell(const std::string& generation, const Words& words);
  void look(const std::string& generation);
  [[nodiscard]] bool have_all_ended(const std::string& generation);
  void exchange_signs_of_life();
  void read_loss();
  void lose(const std::string& sentence);
  void wake_poll_loop() const;

  Meeting meeting_;
  SignsOfLife signs_;
  FileDescriptor event_;
  std::shared_ptr<Store> store_;  // the thread's, as are the four below
  std::vector<Peer> peers_;       // whom this node watches
  LifeSign store_life_;
  std::uint64_t store_answers_ = 0;
  Deadline next_sign_of_life_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string generation_;  // under mutex_, as are all below
  Words words_;
  bool stopping_ = false;
  News news_;
  std::thread thread_;
};

}  // namespace ddp::launcher
