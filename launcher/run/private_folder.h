// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/file_descriptor.h"

namespace ddp::launcher {

// A folder that only this user can read and that the destructor removes. It is in TMPDIR if that is
// set, else in memory, since on a busy disk making folders takes longer than the rest of a start.
// If that place cannot be used, it is in /tmp. If none can be made the path is empty.
//
// Make it before the guardian forks, so that the process that outlives the other removes it. If
// both are killed, the folder stays, but is no longer locked; a later launcher on this host removes
// it, unless the host has started anew.
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

}  // namespace ddp::launcher
