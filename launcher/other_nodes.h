// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

namespace ddp::launcher {

// The launchers of a job's other nodes, as this one hears of them and talks to them while its
// workers run: that a node has failed, that its workers are gone, that the job is to stop.
class OtherNodes {
 public:
  // What is known of a generation.
  struct News {
    std::optional<int> failed_node = {};  // where the first failure was, or a signal
    std::optional<int> stop_signal = {};  // that signal, if it leaves all workers time to end
    std::string lost = {};                // a sentence: which node cannot be reached any more
    bool is_open = false;                 // the store is ready for its workers
    bool have_all_ended = false;          // the workers of all nodes are gone
    bool stop_requested = false;          // of the whole job, by a signal to one of its launchers

    [[nodiscard]] bool is_bad() const { return failed_node.has_value() || !lost.empty(); }
    // No other node's workers matter any more: they have ended, or follow a failure.
    [[nodiscard]] bool is_over() const {
      return have_all_ended || !lost.empty() || (failed_node && !stop_signal);
    }
    friend bool operator==(const News&, const News&) = default;
  };

  virtual ~OtherNodes() = default;

  // All that follows is about this generation; at first it is 0, which is open. Those after it wait
  // for node 0 to open() them.
  virtual void begin(int generation) = 0;
  virtual void open() = 0;

  // Readable when there is news; read it by news(). -1 if there never is any.
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual News news() = 0;

  // This node has seen a failure, which is the first unless another one's was.
  virtual void claim_failure() = 0;
  // The same of a signal to this launcher, which all workers are to have time to obey.
  virtual void claim_stop(int signal_number) = 0;
  // The workers of this node are gone.
  virtual void end_generation() = 0;
  // This launcher was asked to let the job stop by itself.
  virtual void request_stop() = 0;

  // Waits for what the failed node says of its failure, or, if it is this one, says it. The text is
  // empty if the failed node has vanished since.
  [[nodiscard]] virtual std::string agree_on_failure(const std::string& own) = 0;

  // Waits until the workers of all nodes are gone; false if a node cannot be reached, or theirs do
  // not end.
  [[nodiscard]] virtual bool wait_for_all() = 0;

  // The job is over here. Node 0's launcher, which hosts the store, waits for the others to come to
  // this point.
  virtual void leave() = 0;

  // This launcher cannot go on, for what `own` says: the others are told, and the job is left.
  void give_up(const std::string& own) {
    claim_failure();
    (void)agree_on_failure(own);
    leave();
  }
};

// Those of a job on one node. Whatever one waits for has happened: nobody is there to do it.
class NoOtherNodes final : public OtherNodes {
 public:
  void begin(int) override {}
  void open() override {}
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] News news() override { return {.is_open = true, .have_all_ended = true}; }
  void claim_failure() override {}
  void claim_stop(int) override {}
  void end_generation() override {}
  void request_stop() override {}
  [[nodiscard]] std::string agree_on_failure(const std::string& own) override { return own; }
  [[nodiscard]] bool wait_for_all() override { return true; }
  void leave() override {}
};

}  // namespace ddp::launcher
