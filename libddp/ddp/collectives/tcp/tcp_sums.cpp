// SPDX-License-Identifier: MIT
//
// Sums over ranks: all_reduce, reduce and reduce_scatter, in segments that overlap.
#include <algorithm>
#include <deque>
#include <utility>

#include "ddp/base/round_up.h"
#include "ddp/collectives/tcp/tcp_exchange.h"

namespace ddp {
namespace {

// What a rank sums in one segment: large enough to pay for its messages, small enough for segments
// to overlap and, times the ranks, for their terms to fit into memory.
constexpr std::size_t kMostBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastBlockBytes = std::size_t{64} << 10;
constexpr std::size_t kSegmentBytes = std::size_t{8} << 20;
// Segments of which messages may be on their way before the first of them is summed.
constexpr std::size_t kSegmentsAhead = 3;

}  // namespace

// A part of a sum over ranks: the elements that this rank sums, and the messages of that part.
struct TcpAlgorithms::Segment {
  Buffer sum;                 // may be the place of this rank's term
  std::vector<Buffer> terms;  // by rank
  Exchange inputs;
  Exchange sums;  // only if ranks sum blocks
};

// Without a root, every rank keeps the sums.
void TcpAlgorithms::reduce(const Collective& operation, std::optional<int> root) {
  const Buffer& data = operation.input;
  const auto keeps = [&](int rank) { return !root || rank == *root; };
  if (is_in_head_) {
    if (keeps(rank_)) sum_heads(operation, 0, data);
    return;
  }
  const bool in_blocks = uses_blocks(data);
  const std::size_t ranks = in_blocks ? index(world_size_) : 1;  // that share the work
  const std::size_t block = block_of(divide_up(data.count, ranks), data.dtype);
  std::vector<Segment> summed;
  const auto start = [&](std::size_t begin, std::size_t end, std::size_t place) {
    const Buffer all = data.slice(begin, end - begin);
    const auto part_for = [&](int rank) {
      return in_blocks ? part_of(all, rank, world_size_)
                       : all.slice(0, keeps(rank) ? all.count : 0);
    };
    Buffer own_sum = part_for(rank_);
    if (!keeps(rank_)) own_sum.data = term_place(place, rank_);
    Segment segment = start_segment(part_for, own_sum, place);
    if (!in_blocks || !keeps(rank_)) return segment;
    // A rank's block is overwritten by its sum, which comes only after the rank has got the block.
    for (const int peer : others_) segment.sums.receive(peer, part_for(peer));
    return segment;
  };
  run_segments(data.count, block * ranks, start, [&](Segment& segment) {
    sum(operation, segment);
    if (!in_blocks) return;
    for (const int peer : others_) {
      if (keeps(peer)) segment.sums.send(peer, segment.sum);
    }
    if (!keeps(rank_)) return segment.sums.finish();  // another segment needs its place
    summed.push_back(std::move(segment));
  });
  for (Segment& segment : summed) segment.sums.finish();
}

void TcpAlgorithms::reduce_scatter(const Collective& operation) {
  const Buffer& output = operation.output;
  if (is_in_head_) return sum_heads(operation, index(rank_) * output.count, output);
  const auto start = [&](std::size_t begin, std::size_t end, std::size_t place) {
    const auto part_for = [&](int rank) {
      return operation.input.slice(index(rank) * output.count + begin, end - begin);
    };
    return start_segment(part_for, output.slice(begin, end - begin), place);
  };
  run_segments(output.count, block_of(output.count, output.dtype), start,
               [&](Segment& segment) { sum(operation, segment); });
}

// `offset` is where the terms begin in the inputs.
void TcpAlgorithms::sum_heads(const Collective& operation, std::size_t offset, const Buffer& sum) {
  std::vector<Buffer> terms;
  for (int rank = 0; rank < world_size_; ++rank) {
    terms.push_back(input_in_head(rank, sum.dtype).slice(offset, sum.count));
  }
  sum_terms(operation, terms, sum);
}

// Cuts `count` elements into segments of `size`. Each has a place in the memory for terms, which it
// may use until it is finished.
void TcpAlgorithms::run_segments(std::size_t count, std::size_t size, const Start& start,
                                 const std::function<void(Segment&)>& finish) {
  std::deque<Segment> started;
  const auto finish_first = [&] {
    finish(started.front());
    started.pop_front();
  };
  for (std::size_t begin = 0; begin < count; begin += size) {
    if (started.size() == kSegmentsAhead) finish_first();
    started.push_back(start(begin, std::min(begin + size, count), begin / size % kSegmentsAhead));
  }
  while (!started.empty()) finish_first();
}

// Sends each peer the part that it sums, and receives the terms of this rank's part.
TcpAlgorithms::Segment TcpAlgorithms::start_segment(const std::function<Buffer(int)>& part_for,
                                                    const Buffer& sum, std::size_t place) {
  Segment segment{sum, std::vector<Buffer>(index(world_size_), part_for(rank_)), Exchange(*this),
                  Exchange(*this)};
  for (const int peer : others_) {
    Buffer& term = segment.terms[index(peer)];
    term.data = term_place(place, peer);
    segment.inputs.receive(peer, term);
    segment.inputs.send(peer, part_for(peer));
  }
  return segment;
}

void TcpAlgorithms::sum(const Collective& operation, Segment& segment) {
  segment.inputs.finish();
  if (segment.sum.count > 0) sum_terms(operation, segment.terms, segment.sum);
}

void TcpAlgorithms::sum_terms(const Collective& operation, std::span<const Buffer> terms,
                              const Buffer& sum) {
  cpu::reduce_terms(terms, {&sum, 1}, operation.op, average_factor(operation, terms.size()));
}

std::size_t TcpAlgorithms::block_of(std::size_t count, DType dtype) {
  const std::size_t limit_bytes =
      std::clamp(kSegmentBytes / index(world_size_), kLeastBlockBytes, kMostBlockBytes);
  const std::size_t block = std::min(count, limit_bytes / size_of(dtype));
  const std::size_t needed_bytes = host_aligned(block * size_of(dtype));
  if (needed_bytes > term_bytes_) {
    terms_memory_ = {};
    terms_memory_ = allocate_host(kSegmentsAhead * index(world_size_) * needed_bytes);
    term_bytes_ = needed_bytes;
  }
  return block;
}

void* TcpAlgorithms::term_place(std::size_t place, int rank) const {
  const std::size_t number = place * index(world_size_) + index(rank);
  return static_cast<std::byte*>(terms_memory_.data()) + number * term_bytes_;
}

}  // namespace ddp
