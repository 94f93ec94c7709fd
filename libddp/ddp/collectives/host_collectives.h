// SPDX-License-Identifier: MIT
//
// Collectives on small data in host memory, for groups on any device: for checks at the start and
// figures at the end of an epoch. They block the host; inside a step use record_metric() instead.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/base/dtype.h"
#include "ddp/base/named_buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// In place: every rank ends with the reduction over all ranks' `values`.
void all_reduce_on_host(ProcessGroup& group, std::span<double> values,
                        ReduceOp op = ReduceOp::kSum);

// In place: every rank ends with the root's elements.
void broadcast_on_host(ProcessGroup& group, const Buffer& buffer, int root);
// The same for one number: int epoch; broadcast_on_host(*group, epoch, 0).
template <HasDType T>
void broadcast_on_host(ProcessGroup& group, T& value, int root) {
  broadcast_on_host(group, Buffer{&value, 1, dtype_of<T>}, root);
}

// In place: every rank ends with the root's tensors, which may be on the group's device or in CPU
// memory; for what one rank has loaded from a file. `stream` writes them before, and sees them
// after.
void broadcast_tensors(ProcessGroup& group, std::span<const NamedBuffer> tensors, int root,
                       Stream stream = {});

// output[r * n ..] = rank r's input of n elements.
void all_gather_on_host(ProcessGroup& group, const Buffer& input, const Buffer& output);
// Every rank's values, one rank's after the other's: auto sizes = all_gather_on_host(*group,
// std::array{size}). All ranks pass equally many.
template <class Values>
requires HasDType<typename decltype(std::span(std::declval<const Values&>()))::value_type>
[[nodiscard]] auto all_gather_on_host(ProcessGroup& group, const Values& own) {
  const std::span values(own);
  using T = typename decltype(values)::value_type;
  std::vector<T> all(values.size() * static_cast<std::size_t>(group.world_size()));
  const Buffer input{const_cast<T*>(values.data()), values.size(), dtype_of<T>};
  all_gather_on_host(group, input, buffer_of(all));
  return all;
}

// Every rank's text, by rank; any bytes, of any length, also none. Takes world_size times the
// longest text of memory.
[[nodiscard]] std::vector<std::string> all_gather_text(ProcessGroup& group, std::string_view text);

// The root's text; what the other ranks pass is not looked at.
[[nodiscard]] std::string broadcast_text(ProcessGroup& group, std::string text, int root);

}  // namespace ddp
