// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Opens /dev/null as stdin, stdout or stderr where these are closed: otherwise the next file or
// socket that the program opens would get that number, and with it what is printed. What is printed
// there is dropped, and is no error: whoever closes stdout does not want it. Call it first in
// main() if files are opened before init_process_group(), which calls it, too.
void occupy_standard_descriptors();

}  // namespace ddp
