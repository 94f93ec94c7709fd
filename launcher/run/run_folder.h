// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/file_descriptor.h"
#include "launcher/options/options.h"
#include "launcher/output/console.h"
#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {

// A folder that only this user can read and that the destructor removes. It is in TMPDIR if that is
// set, else in memory, since on a busy disk making folders takes longer than the rest of a start.
// If that place cannot be used, it is in /tmp. If none can be made the path is empty.
//
// Make it before the guardian forks, so that the process that outlives the other removes it. If
// both are killed, the folder stays, but is no longer locked; a later launcher removes it.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // A sentence that says why there is no folder; empty if there is one.
  [[nodiscard]] const std::string& remark() const { return remark_; }

 private:
  std::string path_;
  std::string remark_;
  FileDescriptor lock_;  // shared by this process and those that it forks
};

// The files of a job on this node, laid out like torchrun's:
//   ROOT/attempt_<restart>/<local rank>/{stdout.log,stderr.log,error.json,crash.txt}
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

  // Paths in the current attempt, as in Attempt; empty: no such file.
  [[nodiscard]] const std::string& error_directory() const { return attempt_; }
  [[nodiscard]] std::string error_file(int local_rank) const;
  [[nodiscard]] std::string crash_file(int local_rank) const;
  [[nodiscard]] std::string log_file(int local_rank, Channel channel) const;

 private:
  [[nodiscard]] bool make_attempt(int workers) const;
  [[nodiscard]] std::string rank_folder(int local_rank) const;

  bool stays_;
  std::string root_;     // empty: this job has no folder
  std::string attempt_;  // empty: this job has no folder
  std::string remark_;
};

}  // namespace ddp::launcher
