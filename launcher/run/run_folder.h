// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/options/options.h"
#include "launcher/plan/attempt_folder.h"
#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {

// The folder of a job on this node, ROOT. Each attempt has its own in it: ROOT/attempt_<restart>.
// With --log_dir, ROOT is a new folder in it, named after the run (and the node, if there are
// several, since they may share a file system). With only --redirects or --tee, ROOT is a new
// folder in TMPDIR or /tmp. Both are kept. Otherwise it is a private folder, only for error files.
class RunFolder {
 public:
  // `private_folder` is a path; empty: without log files there are no error files. Throws
  // LaunchError if a folder that is to be kept cannot be made.
  RunFolder(const LogOptions& options, const JobLayout& layout, std::string private_folder);

  // Makes the folders of an attempt. If it cannot, it throws LaunchError where the first attempt is
  // to have log files; otherwise it returns a remark, and the attempt has no files. A job that can
  // go on shall not end for want of its log.
  [[nodiscard]] std::string begin_attempt(int workers, int restart_count);

  // A sentence that names a folder which the user did not choose; empty if there is none.
  [[nodiscard]] const std::string& remark() const { return remark_; }

  // The folder that has the log files; empty if there are none.
  [[nodiscard]] std::string log_root() const { return stays_ ? root_ : ""; }

  // That of the current attempt.
  [[nodiscard]] const AttemptFolder& attempt() const { return attempt_; }

 private:
  [[nodiscard]] bool make_attempt(int workers) const;

  bool stays_;
  std::string root_;  // empty: this job has no folder
  uid_t owner_ = 0;   // of the root, as it was made: on some network disks it is not the user
  AttemptFolder attempt_;
  std::string remark_;
};

}  // namespace ddp::launcher
