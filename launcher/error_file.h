// SPDX-License-Identifier: MIT
//
// The other end of ddp/base/error_record.h: what a worker, ours or a PyTorch script, left at
// TORCHELASTIC_ERROR_FILE.
#pragma once

#include <optional>
#include <string>

#include "ddp/base/error_record.h"
#include "launcher/failure.h"

namespace ddp::launcher {

// Nothing if there is no file or it is not in torchrun's format, of which there are two:
// {"message": {"message": TEXT, "extraInfo": {…}}} and {"message": TEXT, …}.
[[nodiscard]] std::optional<ErrorRecord> read_error_record(const std::string& path);

// Leaves word for a launcher above this one, as torchrun does: the record that lies at `from`, with
// the exit code in it, or else one that says `sentence`. Nothing happens if `to` is empty, or
// cannot be written.
void pass_on_error_record(const std::string& from, const std::string& to,
                          const std::string& sentence, int exit_code);

}  // namespace ddp::launcher
