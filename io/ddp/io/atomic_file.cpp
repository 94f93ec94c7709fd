// SPDX-License-Identifier: MIT
#include "ddp/io/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr int kMaxTemporaries = 100;

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw FileError("[atomic_file] " + path_.string() + ": cannot replace: not a regular file");
  }
  create_temporary();
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(fd_.get()) != 0) fail("flush", errno);
  if (close(fd_.release()) != 0) fail("close", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  sync_directory();
}

void AtomicFile::fail(const char* action, int error_number) const {
  throw FileError(fmt::format("[atomic_file] {}: cannot {}: {}", path_.string(), action,
                              error_text(error_number)));
}

void AtomicFile::create_temporary() {
  for (int attempt = 0; attempt < kMaxTemporaries; ++attempt) {
    const std::string name = fmt::format("{}.tmp.{}.{}", path_.string(), getpid(), attempt);
    fd_ = FileDescriptor(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_.is_open()) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("create a temporary file beside it", errno);
}

// Makes the rename itself durable. Some file systems cannot and say EINVAL.
void AtomicFile::sync_directory() const {
  const std::filesystem::path parent = path_.has_parent_path() ? path_.parent_path() : ".";
  const FileDescriptor directory(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) fail("open the directory of", errno);
  if (fsync(directory.get()) != 0 && errno != EINVAL) fail("flush the directory of", errno);
}

}  // namespace ddp
