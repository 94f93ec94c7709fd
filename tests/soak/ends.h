// SPDX-License-Identifier: MIT
//
// The measurements of soak: how long real jobs take to end, or to report what is wrong. Each
// function throws if the job does not end as it should, and returns milliseconds. Jobs differ by
// `round`.
#pragma once

#include <string>

#include "support/job.h"

namespace ddp::soak {

// From the kill of one rank until the last of the others has thrown and exited. `mode` is the mode
// of collective_worker, one of its endless loops.
[[nodiscard]] double survivors_exit(const std::string& mode, const std::string& backend, int round);

// From the moment when one rank leaves until the last of the others has named it and exited.
[[nodiscard]] double early_leaver_is_named(const std::string& backend);

// From the moment when one rank calls another collective, or one with another count or type, until
// all have reported both calls and exited.
[[nodiscard]] double difference_is_told(const std::string& backend, int round);

// From the signal to rank 0 in on_rank0 until the last of the others has reported `plight` and
// exited.
[[nodiscard]] double lost_rank0_is_told(int signal_number, const std::string& plight,
                                        test::StoreHost host = test::StoreHost::kTest);

struct HangLines {
  double first = 0;     // after the SIGSTOP of a rank
  double interval = 0;  // from there to the second
};

// The times of the lines that name a stopped rank, from all ranks together.
[[nodiscard]] HangLines stopped_rank_is_named(int round);

}  // namespace ddp::soak
