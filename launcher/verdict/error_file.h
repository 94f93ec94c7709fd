// SPDX-License-Identifier: MIT
//
// Reads the error record (ddp/base/error_record.h) that a worker, ours or a PyTorch script, left at
// TORCHELASTIC_ERROR_FILE.
#pragma once

#include <optional>
#include <string>

#include "ddp/base/error_record.h"
#include "launcher/verdict/failure.h"

namespace ddp::launcher {

// Returns nothing if there is no file or it has neither of torchrun's two formats: {"message":
// {"message": TEXT, "extraInfo": {…}}} and {"message": TEXT, …}.
[[nodiscard]] std::optional<ErrorRecord> read_error_record(const std::string& path);

// Leaves a record for an outer launcher, as torchrun does: the record at `from` with the exit code
// added, or one that contains `sentence`. Does nothing if `to` is empty, cannot be written,
// or is not a regular file.
void pass_on_error_record(const std::string& from, const std::string& to,
                          const std::string& sentence, int exit_code);

}  // namespace ddp::launcher
