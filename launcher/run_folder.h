// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "launcher/console.h"
#include "launcher/environment.h"
#include "launcher/options.h"

namespace ddp::launcher {

// The files of a job on this node, laid out as torchrun's:
//   ROOT/attempt_<restart>/<local rank>/{stdout.log,stderr.log,error.json}
// With --log_dir, ROOT is a new folder in it, named after the run (and the node, if there are
// several, who may share a file system). Without, but with --redirects or --tee, it is a new folder
// in TMPDIR or /tmp. Both stay.
//
// Else there are error files alone, in a private folder that goes with this object: in TMPDIR if
// that is set, or in memory, since a busy disk takes longer to make folders than all the rest of a
// start. If no folder can be made there are no error files.
class RunFolder {
 public:
  // Throws LaunchError if a folder that is to stay cannot be made.
  RunFolder(const LogOptions& options, const JobContext& job);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Makes the folders of an attempt. Throws LaunchError likewise.
  void begin_attempt(const JobContext& job);

  // A sentence on where things are that the user did not choose; empty if there are none.
  [[nodiscard]] const std::string& remark() const { return remark_; }

  // Paths in the current attempt; empty: there is no place for it.
  [[nodiscard]] std::string error_file(int local_rank) const;
  [[nodiscard]] std::string log_file(int local_rank, Channel channel) const;

 private:
  [[nodiscard]] std::string rank_folder(int local_rank) const;

  bool stays_;
  std::string root_;     // empty: there is none
  std::string attempt_;  // what paths of the current attempt begin with; empty: there are none
  std::string remark_;
};

}  // namespace ddp::launcher
