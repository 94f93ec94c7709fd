// SPDX-License-Identifier: MIT
//
// What soak measures: how long real jobs take to end, or to say what is wrong. Each throws if the
// job does not end as it should, and returns milliseconds; jobs differ by `round`.
#pragma once

#include <string>

namespace ddp::soak {

// From the kill of one rank until the last of the others has raised and exited. `mode` is what
// collective_worker all_reduces for ever.
[[nodiscard]] double survivors_exit(const std::string& mode, const std::string& backend, int round);

// From the moment when one rank leaves until the last of the others has named it and exited.
[[nodiscard]] double early_leaver_is_named(const std::string& backend);

// From the moment when one rank calls another collective, or one with another count or type, until
// all have told both sides and exited.
[[nodiscard]] double difference_is_told(const std::string& backend, int round);

// From the signal to rank 0 in on_rank0 until the last of the others has said so and exited.
[[nodiscard]] double lost_rank0_is_told(int signal_number, const std::string& plight);

struct HangLines {
  double first = 0;     // after the SIGSTOP of a rank
  double interval = 0;  // from there to the second
};

// When the lines come that name a stopped rank, of all ranks together.
[[nodiscard]] HangLines stopped_rank_is_named(int round);

}  // namespace ddp::soak
