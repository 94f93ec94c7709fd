// SPDX-License-Identifier: MIT
#include "ddp/io/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"

namespace ddp {

TextFile::TextFile(std::string origin, std::filesystem::path path, TextFileMode mode)
    : origin_("[" + std::move(origin) + "] "), path_(std::move(path)) {
  const int truncate = mode == TextFileMode::kTruncate ? O_TRUNC : 0;
  fd_ = FileDescriptor(
      open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | truncate, 0666));
  if (!fd_.is_open()) {
    throw FileError(origin_ + path_.string() + ": cannot open: " + error_text(errno));
  }
}

void TextFile::write(std::string_view text) {
  while (!failed_ && !text.empty()) {
    const ssize_t written = ::write(fd_.get(), text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      failed_ = true;
      logging::error(origin_ + path_.string() +
                     ": cannot write, so nothing more is added to it: " + error_text(errno));
    }
  }
}

}  // namespace ddp
