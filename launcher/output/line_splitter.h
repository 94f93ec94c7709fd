// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddp::launcher {

enum class LineEnd { kNewline, kCarriageReturn, kNone };

// Cuts a byte stream into lines, which may end in "\n", "\r\n" or, as progress bars do, "\r".
class LineSplitter {
 public:
  // Called with a line, including its end.
  using Emit = std::function<void(std::string_view line, LineEnd end)>;

  // Emits the lines that these bytes complete and keeps the rest. A rest longer than kLongestLine
  // is emitted as it is.
  void feed(std::string_view bytes, const Emit& emit);

  // Emits the kept rest, if any, as a line without end.
  void flush(const Emit& emit);

  [[nodiscard]] bool has_rest() const { return !rest_.empty(); }

  // True if the bytes since the last line that ended with nothing kept are whole 4 KiB blocks. The
  // writer is then most likely a block-buffered stdio, which cuts its blocks in the middle of
  // lines, and the rest of the line will come with the next block.
  [[nodiscard]] bool ends_on_block() const { return bytes_since_whole_ % 4096 == 0; }

  static constexpr std::size_t kLongestLine = 64 * 1024;

 private:
  std::string rest_;
  std::uint64_t bytes_since_whole_ = 0;
};

}  // namespace ddp::launcher
