// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ddp/base/file_descriptor.h"

namespace ddp {

enum class TextFileMode : std::uint8_t { kTruncate, kAppend };

// An optional output file of a training: a failure (a full disk, a pipe whose reader has gone) is
// logged once, and later text is dropped. kAppend begins a new line if the last one has no end.
// With kTruncate, begin() or the first write() empties the file, so a training that fails at the
// start leaves it as it was. A path that names this process's stdout or stderr means that stream,
// which is never emptied. Unbuffered; a pipe whose reader is slow makes write() wait. Not
// thread-safe.
class TextFile {
 public:
  // `origin` begins the messages: "metrics_writer". Throws FileError that names file and reason,
  // also if the file is to be emptied and cannot be, or while another process writes it.
  TextFile(std::string origin, std::filesystem::path path, TextFileMode mode);

  // Call it once the start has succeeded. Throws like the constructor.
  void begin();
  void write(std::string_view text);
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  [[nodiscard]] int resize(std::int64_t size) const;
  [[nodiscard]] int empty();
  [[noreturn]] void refuse_to_empty(int error) const;
  void end_torn_line(std::int64_t size);

  std::string origin_;
  std::filesystem::path path_;
  FileDescriptor fd_;
  bool is_to_be_emptied_ = false;
  bool failed_ = false;
};

}  // namespace ddp
