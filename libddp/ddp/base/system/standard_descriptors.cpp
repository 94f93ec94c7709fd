// SPDX-License-Identifier: MIT
#include "ddp/base/system/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace ddp {

void occupy_standard_descriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

}  // namespace ddp
