// SPDX-License-Identifier: MIT
#include "launcher/output/line_splitter.h"

namespace ddp::launcher {

void LineSplitter::feed(std::string_view bytes, const Emit& emit) {
  bytes_since_whole_ += bytes.size();
  for (;;) {
    const std::size_t at = bytes.find_first_of("\r\n");
    if (at == std::string_view::npos) break;
    const bool is_newline = bytes[at] == '\n' || bytes.substr(at + 1).starts_with('\n');
    const std::size_t length = bytes.substr(at).starts_with("\r\n") ? at + 2 : at + 1;
    const LineEnd end = is_newline ? LineEnd::kNewline : LineEnd::kCarriageReturn;
    if (rest_.empty()) {
      emit(bytes.substr(0, length), end);
    } else {
      rest_ += bytes.substr(0, length);
      emit(rest_, end);
      rest_.clear();
    }
    bytes.remove_prefix(length);
  }
  rest_ += bytes;
  if (rest_.empty()) bytes_since_whole_ = 0;
  if (rest_.size() > kLongestLine) flush(emit);
}

void LineSplitter::flush(const Emit& emit) {
  if (rest_.empty()) return;
  emit(rest_, LineEnd::kNone);
  rest_.clear();
}

}  // namespace ddp::launcher
