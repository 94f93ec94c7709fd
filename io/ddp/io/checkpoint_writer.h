// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <exception>
#include <span>
#include <thread>

#include "ddp/base/stream.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/directory_lock.h"
#include "ddp/io/host_copy.h"

namespace ddp {

// Saves checkpoints on a thread of its own: the caller waits for a copy in host memory only. At
// most one save is under way; while it is, the directory is the writer's. Not thread-safe.
class CheckpointWriter {
 public:
  // The directory outlives it. FileError if another process has a writer there, since each would
  // list its own checkpoints among the other's, or if no file can be made there: hours of training
  // should not end with that.
  explicit CheckpointWriter(CheckpointDirectory& directory)
      : directory_(directory), lock_(directory.path()) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Waits for the save under way, however long the disk takes, and logs its error.
  ~CheckpointWriter();

  // Begins to save the tensors, in CPU or device memory, as `stream` leaves them; they may change
  // when it returns. First waits for the save before, and throws what that threw.
  void save(CheckpointInfo info, std::span<const NamedBuffer> tensors, Stream stream = {});

  // Returns when all is on disk; throws what the last save threw, unless that was thrown already.
  void finish();

  // The same without waiting: throws if a save has failed that is over by now. It looks at one
  // atomic, so it may be called in each step, and a full disk is then known in the next one.
  void check();

 private:
  CheckpointDirectory& directory_;
  DirectoryLock lock_;
  HostCopy copy_;
  std::exception_ptr error_;             // of the thread
  std::atomic<bool> has_failed_{false};  // error_ is there
  std::thread thread_;
};

}  // namespace ddp
