// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/collectives/process_group.h"
#include "ddp/io/safetensors.h"

namespace train {

// The one --lr-schedule that has a state, which checkpoints then hold.
inline constexpr const char* kPlateau = "plateau";

// What tells jobs apart, as metadata of their checkpoints.
struct JobDescription {
  ddp::SafetensorsMetadata essentials;  // with others it would not be the same training
  ddp::SafetensorsMetadata settings;    // may change when a training goes on

  [[nodiscard]] ddp::SafetensorsMetadata all() const;
};

// Collective. Throws MismatchError on all ranks, naming the first setting that differs, unless all
// have the same description.
void check_same_on_all_ranks(const JobDescription& job, ddp::ProcessGroup& group);

// Throws FileError that names the first of the essentials in which the metadata differ.
void check_essentials(const JobDescription& here, const ddp::SafetensorsMetadata& there);

// "; lr was 0.1 and is 0.05" for each setting that has changed.
[[nodiscard]] std::string changed_settings(const JobDescription& here,
                                           const ddp::SafetensorsMetadata& there);

// "it was trained with --amp fp16, and --amp none is asked for", of the flags that decide which
// tensors a checkpoint has; empty if none of them differ.
[[nodiscard]] std::string different_tensor_flags(const JobDescription& here,
                                                 const ddp::SafetensorsMetadata& there);

}  // namespace train
