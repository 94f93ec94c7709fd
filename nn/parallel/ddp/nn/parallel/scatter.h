// SPDX-License-Identifier: MIT
//
// Cuts tensors along a dimension and joins them again, between devices. Everything is ordered
// behind the work on both contexts' streams, and later work on either behind it. Between GPUs the
// host does not wait; with the CPU on one side, everything is complete on return.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/kernels/shapes.h"
#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// A range of indices of a dimension.
struct Piece {
  std::size_t begin = 0;
  std::size_t count = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// torch.chunk: pieces of ceil(size / parts), the last one smaller, so at most `parts` of them; one
// empty piece for size 0.
[[nodiscard]] std::vector<Piece> chunk(std::size_t size, std::size_t parts);

// Equal counts and dtypes.
struct Copy {
  Buffer source;
  Buffer target;
};

// The streams are ordered once for all of these copies.
void copy_all(const Context& from, const Context& to, std::span<const Copy> copies);

// `target` = `source`, or += with kAccumulate; equal counts and dtypes.
void transfer(Context& from, const Buffer& source, Context& to, const GradientTarget& target);

// A copy of the piece of `source` along `dim`, in memory of `to`.
[[nodiscard]] Tensor take_piece(Context& from, const Tensor& source, std::size_t dim,
                                const Piece& piece, Context& to);
// Writes `source` to the place of the piece in `target`.
void put_piece(Context& from, const Tensor& source, Context& to, const Tensor& target,
               std::size_t dim, const Piece& piece);

}  // namespace ddp::nn
