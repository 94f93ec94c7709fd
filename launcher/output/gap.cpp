// SPDX-License-Identifier: MIT
#include "launcher/output/gap.h"

#include <fmt/core.h>
#include <unistd.h>

#include <string>

#include "ddp/base/error.h"

namespace ddp::launcher {

bool Gap::close(int fd, bool is_at_line_begin) {
  const std::string line = fmt::format("{}ddp-launch: {} bytes are missing here: {}\n",
                                       is_at_line_begin ? "" : "\n", bytes_, error_text(error_));
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return false;
  *this = {};
  return true;
}

}  // namespace ddp::launcher
