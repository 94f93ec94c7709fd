// SPDX-License-Identifier: MIT
//
// A checkpoint is a safetensors file whose metadata hold a checksum of all that is in it, so that
// damage which leaves the file well-formed is seen, too:
//
//   "checksum" := CRC-32 as zlib computes it, 8 hexadecimal digits, of
//                 (KEY 0 VALUE 0)*                  the other metadata, by ascending key
//                 (NAME 0 DTYPE 0 SHAPE 0 data)*    the tensors, by ascending name
//   DTYPE      := "float32" | ...                   as to_string() spells it
//   SHAPE      := "" | size ("," size)*
//
// It does not depend on the order in the file. CRC-32, since a SHA-256 takes longer than the disk.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "ddp/base/stream.h"
#include "ddp/io/safetensors.h"

namespace ddp {

// Of tensors in CPU memory.
[[nodiscard]] std::string checkpoint_checksum(std::span<const NamedBuffer> tensors,
                                              const SafetensorsMetadata& metadata);

// As save_safetensors, with the checksum.
void save_checkpoint(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                     SafetensorsMetadata metadata);

// As load_safetensors; a FileError also if there is no checksum or it is wrong.
[[nodiscard]] Safetensors load_checkpoint(const std::filesystem::path& path);

// Copies the tensors that were loaded from `path` over the targets of the same names, in CPU or
// device memory; returns when that is done. A name may begin with "module.", which PyTorch's
// wrappers put before it. A tensor that is missing, left over, or of another shape or dtype is a
// FileError that names file and tensor, before anything is written.
void restore_tensors(const std::filesystem::path& path, const Safetensors& loaded,
                     std::span<const NamedBuffer> targets, Stream stream = {});

}  // namespace ddp
