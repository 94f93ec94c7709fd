// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace ddp {

// Of this host; for messages.
[[nodiscard]] std::string host_name();

}  // namespace ddp
