// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "launcher/console.h"
#include "launcher/environment.h"
#include "launcher/options.h"

namespace ddp::launcher {

// A folder that nobody else can look into and that goes with this object: in TMPDIR if that is set,
// else in memory, since a busy disk takes longer to make folders than all the rest of a start.
// Where none can be made the path is empty.
//
// Made before the guardian forks, so that it is removed by whichever process is left.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The files of a job on this node, laid out as torchrun's:
//   ROOT/attempt_<restart>/<local rank>/{stdout.log,stderr.log,error.json,crash.txt}
// With --log_dir, ROOT is a new folder in it, named after the run (and the node, if there are
// several, who may share a file system). Without, but with --redirects or --tee, it is a new folder
// in TMPDIR or /tmp. Both stay. Else it is a private folder, for error files alone.
class RunFolder {
 public:
  // `private_folder` is a path; empty: there are no error files, unless there are log files. Throws
  // LaunchError if a folder that is to stay cannot be made.
  RunFolder(const LogOptions& options, const JobContext& job, std::string private_folder);

  // Makes the folders of an attempt. Throws LaunchError likewise.
  void begin_attempt(const JobContext& job);

  // A sentence on where things are that the user did not choose; empty if there are none.
  [[nodiscard]] const std::string& remark() const { return remark_; }

  // The folder that has the log files; empty if there are none.
  [[nodiscard]] std::string log_root() const { return stays_ ? root_ : ""; }

  // Paths in the current attempt; empty: there is no place for it. As JobContext has it.
  [[nodiscard]] const std::string& error_directory() const { return attempt_; }
  [[nodiscard]] std::string error_file(int local_rank) const;
  [[nodiscard]] std::string crash_file(int local_rank) const;
  [[nodiscard]] std::string log_file(int local_rank, Channel channel) const;

 private:
  [[nodiscard]] std::string rank_folder(int local_rank) const;

  bool stays_;
  std::string root_;     // empty: there is none
  std::string attempt_;  // likewise
  std::string remark_;
};

}  // namespace ddp::launcher
