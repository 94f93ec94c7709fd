// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

namespace ddp::launcher {

// The launchers of a job's other nodes, as this launcher hears from them and tells them, while its
// workers run, that a node has failed, that its workers have ended, that the job should stop.
class OtherNodes {
 public:
  // The known state of a generation.
  struct News {
    std::optional<int> failed_node = {};  // the node that saw the first failure or signal
    std::optional<int> stop_signal = {};  // the signal, if all workers have time to obey it
    std::string lost = {};                // a sentence: which node cannot be reached any more
    bool is_open = false;                 // the store is ready for the generation's workers
    bool have_all_ended = false;          // the workers of all nodes have ended
    bool stop_requested = false;          // SIGUSR1 was sent to one of the job's launchers
    bool worker_stopped = false;          // a worker was asked to stop, not by its launcher
    std::optional<int> hurried_by = {};   // the node whose user does not want to wait any longer

    // The job was asked to end by itself.
    [[nodiscard]] bool is_stop() const { return stop_requested || worker_stopped; }
    [[nodiscard]] bool is_bad() const { return failed_node.has_value() || !lost.empty(); }
    // True if this node need not wait for other nodes' workers: they have ended, or follow a
    // failure.
    [[nodiscard]] bool is_over() const {
      return have_all_ended || !lost.empty() || (failed_node && !stop_signal);
    }
    friend bool operator==(const News&, const News&) = default;
  };

  virtual ~OtherNodes() = default;

  // "node 2 (host)".
  [[nodiscard]] virtual std::string describe(int node) const = 0;

  // All further calls are about this generation. At first it is 0, which is open; later ones wait
  // until node 0 calls open().
  virtual void begin(int generation) = 0;
  virtual void open() = 0;

  // Readable when there is news, which news() reads. -1 if there never is any.
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual News news() = 0;

  // Claims a failure on this node as the first; another node's claim may have come before.
  virtual void claim_failure() = 0;
  // Claims a signal to this launcher likewise; all workers get time to obey it.
  virtual void claim_stop(int signal_number) = 0;
  // The workers of this node have ended.
  virtual void end_generation() = 0;
  // This launcher got SIGUSR1: the job should end by itself.
  virtual void request_stop() = 0;
  // A signal asked a worker of this node to stop, and so all workers, which agree on the last step.
  virtual void tell_stop_of_worker() = 0;
  // The job already ends, and nobody should wait for its workers any longer.
  virtual void hurry() = 0;

  // Returns the failed node's description of its failure, and waits for it; if this node is the
  // failed one, publishes `own`. Nothing if the description does not come. If a node is lost, the
  // news say so by then.
  [[nodiscard]] virtual std::optional<std::string> agree_on_failure(const std::string& own) = 0;

  // Waits until the workers of all nodes have ended; false if a node cannot be reached or its
  // workers do not end.
  [[nodiscard]] virtual bool wait_for_all() = 0;

  // The job is over on this node. Node 0's launcher, which hosts the store, waits until the others
  // have called this, too.
  virtual void leave() = 0;

  // This launcher cannot go on, for the reason `own`: tells the others and leaves the job.
  void give_up(const std::string& own) {
    claim_failure();
    (void)agree_on_failure(own);
    leave();
  }
};

// For a job on one node: every wait returns at once, since there is no other node.
class NoOtherNodes final : public OtherNodes {
 public:
  [[nodiscard]] std::string describe(int node) const override {
    return "node " + std::to_string(node);
  }
  void begin(int) override {}
  void open() override {}
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] News news() override { return {.is_open = true, .have_all_ended = true}; }
  void claim_failure() override {}
  void claim_stop(int) override {}
  void end_generation() override {}
  void request_stop() override {}
  void tell_stop_of_worker() override {}
  void hurry() override {}
  [[nodiscard]] std::optional<std::string> agree_on_failure(const std::string& own) override {
    return own;
  }
  [[nodiscard]] bool wait_for_all() override { return true; }
  void leave() override {}
};

}  // namespace ddp::launcher
