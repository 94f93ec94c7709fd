// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Takes the numbers of stdin, stdout and stderr where these are closed: otherwise the next file or
// socket that the program opens would get that number, and with it what is printed. Reading and
// printing fail as before. Call it first in main() if files are opened before init_process_group(),
// which calls it, too.
void occupy_standard_descriptors();

}  // namespace ddp
