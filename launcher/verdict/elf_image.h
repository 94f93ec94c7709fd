// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"

namespace ddp::launcher {

// A program or library on disk, in this machine's format. Another process, such as a compiler, may
// change the file meanwhile; calls return nothing for damaged or missing parts.
class ElfImage {
 public:
  explicit ElfImage(const std::string& path);

  // The link-time address of what lies at `file_offset`; addr2line takes it.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;

  // The demangled name of the function around a link-time address: from the symbol table or, in a
  // stripped file, from the exported symbols. Empty if none is known.
  [[nodiscard]] std::string function_at(std::uint64_t address) const;

 private:
  template <typename T>
  [[nodiscard]] std::vector<T> read(std::uint64_t offset, std::uint64_t count) const;

  FileDescriptor file_;
  std::uint64_t size_ = 0;  // 0: not such a file
};

}  // namespace ddp::launcher
