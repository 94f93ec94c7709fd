// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <atomic>
#include <exception>
#include <span>
#include <string>
#include <thread>

#include "ddp/base/stream.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/directory_lock.h"
#include "ddp/io/host_copy.h"

namespace ddp {

// Saves checkpoints on its own thread: the caller waits only for a copy in host memory. At most one
// save runs at a time, and no other code may use the directory meanwhile. Not thread-safe. In a
// fork of the process that has made it, save() and finish() throw std::logic_error.
class CheckpointWriter {
 public:
  // The directory must outlive the writer. Throws FileError if another process has a writer there,
  // since each would list its own checkpoints among the other's; also if no file can be created or
  // replaced there, so that a training fails at its start rather than at its first checkpoint. Make
  // it before the directory loads a checkpoint: another process may still save one until then
  // (reread()).
  explicit CheckpointWriter(CheckpointDirectory& directory);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Waits for the current save, however long the disk takes, and logs its error.
  ~CheckpointWriter();

  // Starts saving the tensors, in CPU or device memory, as `stream` leaves them. They may change
  // after it returns. First waits for the previous save, and rethrows its error. A save fails with
  // FileError if the directory was removed or replaced meanwhile: another process may write there.
  void save(CheckpointInfo info, std::span<const NamedBuffer> tensors, Stream stream = {});

  // Returns when everything is on disk. Call it before exit(), which does not destroy the objects
  // of the functions it leaves. Rethrows the error of the last save, unless it was thrown before.
  void finish();

  // Throws the error of a save that has already failed; does not wait. It reads one atomic, so a
  // program can call it in each step and learn of a full disk soon.
  void check();

 private:
  void check_process() const;
  void check_lock(const CheckpointName& name) const;

  CheckpointDirectory& directory_;
  DirectoryLock lock_;
  pid_t process_;  // that has made it
  HostCopy copy_;
  std::string saving_;                   // the file of the last save
  std::exception_ptr error_;             // set by the thread
  std::atomic<bool> has_failed_{false};  // error_ is set
  std::thread thread_;
};

}  // namespace ddp
