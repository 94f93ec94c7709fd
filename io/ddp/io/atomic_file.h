// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "ddp/base/file_descriptor.h"

namespace ddp {

// A file that appears completely or not at all. write() goes to a temporary file in the same
// directory, which commit() moves over `path`, or over the file that `path` is a symbolic link to
// (a link to nothing is replaced itself). Until then an older file at `path` is untouched; without
// commit() the destructor removes the temporary file. If it is complete and only cannot be moved,
// it stays, and the error names it. (A process that is killed leaves it behind as PATH.tmp.PID.N:
// see remove_orphaned_temporaries.)
//
// Every failure is a FileError that names the path and the reason. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);

  // Returns once the new file would survive a loss of power. After an error `path` is the older
  // file, or, if only this promise could not be kept, the new one.
  void commit();

 private:
  void create_temporary();
  void sync_directory() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once the temporary file is gone
  FileDescriptor fd_;
};

// Makes `path` another name of `file`, atomically also if `path` exists. Returns false if no hard
// link can be made, for whatever reason: file systems without them have many errors for it, and a
// copy shows whether `path` can be written.
[[nodiscard]] bool link_atomically(const std::filesystem::path& file,
                                   const std::filesystem::path& path);

// Removes the temporary files that killed processes have left in `directory`, of files whose name
// there `is_ours`: those that nobody writes any more. Where the file system has no locks they stay,
// since another process may be writing them.
void remove_orphaned_temporaries(const std::filesystem::path& directory,
                                 const std::function<bool(std::string_view name)>& is_ours);

}  // namespace ddp
