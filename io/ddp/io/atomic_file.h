// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "ddp/base/socket.h"

namespace ddp {

// A file that appears whole or not at all: what is written goes to a temporary file in the same
// directory, which commit() moves over `path`, or over the file that `path` is a symbolic link to.
// Until then, and after any error, an older file at `path` is untouched; without commit() the
// temporary disappears with this object. (A process that is killed leaves it behind, as
// PATH.tmp.PID.N: see remove_orphaned_temporaries.)
//
// Every failure is a FileError that names the path and the reason. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);

  // Returns once the new file would survive a loss of power.
  void commit();

 private:
  void create_temporary();
  void sync_directory() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once it is gone
  FileDescriptor fd_;
};

// Makes `path` another name of `file`, in one step if there is a file at `path`. False on a file
// system without hard links.
[[nodiscard]] bool link_atomically(const std::filesystem::path& file,
                                   const std::filesystem::path& path);

// Removes the temporary files in `directory` that killed processes have left behind: those of
// processes that do not live on this host, and this process's own. So nobody, on any host, may be
// writing an AtomicFile there.
void remove_orphaned_temporaries(const std::filesystem::path& directory);

}  // namespace ddp
