// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// Pieces of pinned memory, used in turn, in which the host writes what is then copied to the
// device. There are several, because the host runs ahead: the last copies may still be under way
// when it writes again.
class PinnedRing {
 public:
  PinnedRing() = default;
  PinnedRing(Device device, std::size_t size_bytes, std::size_t pieces) {
    const cu::DeviceGuard guard(device);
    for (std::size_t i = 0; i < pieces; ++i) {
      pieces_.push_back({cu::allocate_pinned(size_bytes), cu::Event(device)});
    }
  }

  // The next piece. Blocks the host until the last copy from it has ended.
  [[nodiscard]] void* next() {
    turn_ = (turn_ + 1) % pieces_.size();
    Piece& piece = pieces_[turn_];
    if (std::exchange(piece.is_under_way, false)) piece.copied.synchronize();
    return piece.memory.data();
  }
  // The work that `stream` holds now includes the copy from the piece that next() returned last.
  void note_copy(Stream stream) {
    pieces_[turn_].copied.record(stream);
    pieces_[turn_].is_under_way = true;
  }

 private:
  struct Piece {
    Allocation memory;
    cu::Event copied;
    bool is_under_way = false;  // not known to be copied
  };

  std::vector<Piece> pieces_;
  std::size_t turn_ = 0;
};

}  // namespace ddp
