// SPDX-License-Identifier: MIT
#include "launcher/output/gap.h"

#include <fmt/core.h>

#include <string>

#include "ddp/base/error.h"
#include "ddp/base/system/write_all.h"

namespace ddp::launcher {

int Gap::close(int fd, bool& is_at_line_begin) {
  if (!is_open()) return 0;
  const std::string line = fmt::format("{}ddp-launch: {} bytes are missing here: {}\n",
                                       is_at_line_begin ? "" : "\n", bytes_, error_text(error_));
  if (const int error = write_all(fd, line); error != 0) return error;
  *this = {};
  is_at_line_begin = true;
  return 0;
}

}  // namespace ddp::launcher
