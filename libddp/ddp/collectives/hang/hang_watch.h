// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/log.h"
#include "ddp/base/threads/life_sign.h"
#include "ddp/base/threads/periodic_thread.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/hang_diagnosis.h"
#include "ddp/collectives/hang/rank_progress.h"
#include "ddp/collectives/hang/report_window.h"
#include "ddp/collectives/hang_watch_options.h"
#include "ddp/store/store.h"

namespace ddp {

// Names the rank that keeps a job waiting. Each process has one for each job, with its own thread;
// it watches all groups of the job.
//
// Every period it publishes where this rank is, under "progress/<rank>". While an operation of this
// rank is pending for longer than half the patience, one of the waiting ranks reads what the others
// publish, and writes which rank is missing under "hang/diagnosis". The other waiting ranks read
// that, or, if it is about another group's operation, make their own diagnosis. So all of them have
// a sentence when the operation times out. Once the patience is over, that one rank logs it as a
// warning, at most once in a window.
//
// While the store does not answer, since the process that hosts it is stopped, that is the
// diagnosis of every rank, and rank 1 reports it, in the same window: rank 0 may be the host. If
// the store is lost, the watch ends silently. Destroying it waits for at most one store operation.
class HangWatch {
 public:
  using Report = std::function<void(std::string_view)>;

  // `store` is the job's; `self` is this rank.
  HangWatch(std::shared_ptr<Store> store, RankIdentity self, const HangWatchOptions& options,
            Report report = logging::warning);

  // Starts watching a recorder of the group, for as long as the recorder lives. `job_ranks` are the
  // group's members, by rank of the group; `aspect` distinguishes several recorders of one group.
  void add(const std::string& group, std::vector<int> job_ranks,
           const std::shared_ptr<FlightRecorder>& recorder, const std::string& aspect = "");

  // How many collectives a rank of the job has submitted to a group, as it has published last; less
  // than a period old. Nothing if it has published nothing about the group. For any thread.
  [[nodiscard]] std::optional<std::uint64_t> collectives_of(int rank,
                                                            const std::string& group) const;

 private:
  struct Watched {
    std::string name;      // with the aspect
    std::string of_group;  // the suffix of an operation's text; empty for the job's first group
    std::vector<int> job_ranks;
    std::weak_ptr<FlightRecorder> recorder;
    std::uint64_t done = 0;  // at the last check
  };
  // The state of a group's recorder at this check.
  struct Group {
    std::string name;
    std::vector<int> job_ranks;
    std::shared_ptr<FlightRecorder> recorder;
    FlightRecorder::Position position = {};
    std::optional<Hang> hang = {};  // if something is pending for long
  };

  void introduce();
  void forget_ended();
  bool look();
  [[nodiscard]] std::vector<Group> look_at_groups();
  void communicate(const std::vector<Group>& groups);
  void blame_store(const std::vector<Group>& groups);
  [[nodiscard]] static const Group* longest_pending(const std::vector<Group>& groups);
  [[nodiscard]] std::optional<Hang> find_hang(Watched& watched, const Group& group) const;
  void publish(const std::vector<Group>& groups);
  void investigate(const Group& group);
  [[nodiscard]] std::string find_out(const Group& group);
  void adopt_diagnosis(const Group& group);
  [[nodiscard]] Witness question(int rank);

  std::shared_ptr<Store> store_;
  HangWatchOptions options_;
  Report report_;
  RankProgress progress_;  // of this rank
  ReportWindow window_;
  std::map<int, LifeSign> life_signs_;  // by rank of the job
  std::mutex mutex_;
  std::vector<Watched> watched_;          // under mutex_
  std::optional<PeriodicThread> thread_;  // last: it uses the others
};

}  // namespace ddp
