// SPDX-License-Identifier: MIT
#include "launcher/run/private_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <istream>
#include <string>
#include <string_view>
#include <system_error>

#include "ddp/base/error.h"
#include "launcher/run/temporary_folder.h"

namespace ddp::launcher {
namespace {

// Hidden and unlike what a user would choose, since folders of this name may be removed. Hosts may
// share the parent folder without sharing its locks, so the name also tells the host, by the id of
// its running kernel.
std::string private_prefix() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot_id, '-');
  return ".ddp-launch-private-" + boot_id + "-";
}

bool is_private_name(std::string_view name) {
  const std::string prefix = private_prefix();
  return name.starts_with(prefix) && name.size() == prefix.size() + kUniqueSuffix.size();
}

FileDescriptor open_folder(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// A new folder is not locked yet.
constexpr std::time_t kSecondsUntilLocked = 60;

// Whether this is a private folder of this user whose processes were all killed.
bool is_orphaned(const std::string& path) {
  const FileDescriptor folder = open_folder(path);
  struct stat status = {};
  if (::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  if (std::time(nullptr) - status.st_mtime < kSecondsUntilLocked) return false;
  return ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_orphans(const std::string& parent) {
  using std::filesystem::directory_iterator;
  std::error_code ignored;  // what cannot be found or removed only takes space
  for (directory_iterator entry(parent, ignored), end; entry != end; entry.increment(ignored)) {
    const bool is_private = is_private_name(entry->path().filename().string());
    std::error_code not_removed;
    if (is_private && is_orphaned(entry->path())) {
      std::filesystem::remove_all(entry->path(), not_removed);
    }
  }
}

}  // namespace

PrivateFolder::PrivateFolder() {
  const std::string first = temporary_parent("/dev/shm");
  for (const std::string& parent : {first, std::string("/tmp")}) {
    remove_orphans(parent);
    path_ = make_temporary_folder(parent, private_prefix());
    if (!path_.empty()) break;
  }
  if (path_.empty()) {
    remark_ = fmt::format(
        "no folder can be made, neither in {} nor in /tmp ({}): the verdict will not know the "
        "errors that the ranks record",
        first, error_text(errno));
    return;
  }
  lock_ = open_folder(path_);
  static_cast<void>(::flock(lock_.get(), LOCK_SH));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace ddp::launcher
