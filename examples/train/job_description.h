// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/collectives/process_group.h"
#include "ddp/io/safetensors.h"

namespace train {

// The one --lr-schedule that has a state, which checkpoints then hold.
inline constexpr const char* kPlateau = "plateau";

// What distinguishes jobs; stored in the metadata of their checkpoints.
struct JobDescription {
  ddp::SafetensorsMetadata essentials;  // with others it would not be the same training
  ddp::SafetensorsMetadata settings;    // may change when a training goes on
  // What else decides which collectives the ranks call. It is not stored.
  ddp::SafetensorsMetadata conduct;

  // For the metadata of a checkpoint.
  [[nodiscard]] ddp::SafetensorsMetadata all() const;
};

// Collective. Throws MismatchError on all ranks, naming the first setting that differs, unless all
// ranks have the same description.
void check_same_on_all_ranks(const JobDescription& job, ddp::ProcessGroup& group);

// Throws FileError that names the first essential that differs in the metadata.
void check_essentials(const JobDescription& here, const ddp::SafetensorsMetadata& there);

// "; lr was 0.1 and is 0.05" for each changed setting.
[[nodiscard]] std::string changed_settings(const JobDescription& here,
                                           const ddp::SafetensorsMetadata& there);

// "it was trained with --amp fp16, and --amp none is asked for", for the flags that decide which
// tensors a checkpoint has; empty if none of them differs.
[[nodiscard]] std::string different_tensor_flags(const JobDescription& here,
                                                 const ddp::SafetensorsMetadata& there);

}  // namespace train
