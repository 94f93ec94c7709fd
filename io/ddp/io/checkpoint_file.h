// SPDX-License-Identifier: MIT
//
// A checkpoint is a safetensors file whose metadata hold checksums of its contents, so that damage
// is detected even if the file is still well-formed:
//
//   "checksum"  := CRC-32 as zlib computes it, 8 hexadecimal digits, of
//                  (KEY 0 VALUE 0)*                  the other metadata, by ascending key
//                  (NAME 0 DTYPE 0 SHAPE 0 data)*    the tensors, by ascending name
//   "checksums" := the values that it has on the way: after the metadata and after each tensor, 8
//                  digits each, so the last ones are "checksum"'s
//   DTYPE       := "float32" | ...                   as to_string() spells it
//   SHAPE       := "" | size ("," size)*
//
// "The other metadata" are those without these two. The first value that differs tells which tensor
// is damaged; files without "checksums" are read, too, but then the tensor is not known. The
// checksums do not depend on the order in the file. They are CRC-32s because SHA-256 would take
// longer than the disk.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/stream.h"
#include "ddp/io/safetensors.h"

namespace ddp {

// The tensors must be in CPU memory.
[[nodiscard]] std::string checkpoint_checksum(std::span<const NamedBuffer> tensors,
                                              const SafetensorsMetadata& metadata);

// Like save_safetensors, and adds the checksums to the metadata.
void save_checkpoint(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                     SafetensorsMetadata metadata);

// Like load_safetensors. Also throws FileError if the checksum is missing or wrong; it names the
// first damaged tensor by name.
[[nodiscard]] Safetensors load_checkpoint(const std::filesystem::path& path);

// Like load_safetensors, for weights, which may come from PyTorch or from a training here: the
// checksums of a checkpoint are compared if the file has them.
[[nodiscard]] Safetensors load_weights(const std::filesystem::path& path);

// What happens to a floating-point tensor whose dtype in the file is not its target's.
enum class FloatCast {
  kNone,   // it is an error: a checkpoint's dtypes belong to the training that goes on
  kExact,  // it is converted if that is exact (bfloat16 to float32); otherwise it is an error
  kAny,    // it is converted, and rounded if need be; what is too large becomes infinite
};

// Which differences between a file and the targets are no error.
struct RestoreOptions {
  // Names that only one side has; what both have is copied: load_state_dict(strict=False). A file
  // that has none of the targets is an error still; PyTorch then loads nothing and says nothing.
  bool skip_unmatched = false;
  // Targets whose shape in the file is another, as in a model with another number of classes.
  bool skip_other_shapes = false;
  FloatCast cast = FloatCast::kNone;
  Stream stream = {};  // of targets in device memory
};

// The names of what was not restored: unexpected ones in the file's order, others in the targets'.
struct UnmatchedNames {
  std::vector<std::string> missing;     // targets that the file does not have
  std::vector<std::string> unexpected;  // tensors of the file that no target has
  std::vector<std::string> mismatched;  // targets whose shape in the file is another
};

// Copies the tensors that were loaded from `path` into the targets of the same names, in CPU or
// device memory, and returns when the copies are done. A loaded name may have the prefix "module.",
// which PyTorch's wrappers add. If a tensor is missing, left over, of another shape, or of another
// dtype, and the options do not allow that, throws a FileError that names file and tensor, before
// anything is written. Targets that are not restored stay as they are.
UnmatchedNames restore_tensors(const std::filesystem::path& path, const Safetensors& loaded,
                               std::span<const NamedBuffer> targets,
                               const RestoreOptions& options = {});

}  // namespace ddp
