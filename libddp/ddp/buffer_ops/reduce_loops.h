// SPDX-License-Identifier: MIT
//
// How terms become targets, for any lanes of lanes.h, which also says what is forbidden here.
//
// Few operands: a block of vectors goes through all terms and then to all targets, its sums stay in
// registers, each operand is touched once. So a target may be a term.
//
// Many operands: page-aligned, they compete for the same few sets of the cache, which throws lines
// out between two blocks. So a longer piece of one operand is taken at a time, and the sums lie in
// memory.
//
// bench_buffer_ops has measured what is here and what is not (docs/benchmarks.md): no prefetching,
// no non-temporal stores.
#pragma once

#include "ddp/buffer_ops/lanes.h"
#include "ddp/buffer_ops/loops.h"
#include "ddp/buffer_ops/reduce_operations.h"

namespace ddp::buffer_ops {
namespace {

// The operands of a reduction.
template <class Stored>
class AnyOperands {
 public:
  explicit AnyOperands(const Reduction& reduction) : reduction_(reduction) {}
  [[nodiscard]] std::size_t term_count() const { return reduction_.term_count; }
  [[nodiscard]] std::size_t target_count() const { return reduction_.target_count; }
  [[nodiscard]] const Stored* term(std::size_t i) const {
    return static_cast<const Stored*>(reduction_.terms[i].data);
  }
  [[nodiscard]] Stored* target(std::size_t i) const {
    return static_cast<Stored*>(reduction_.targets[i].data);
  }

 private:
  const Reduction& reduction_;
};

// As many operands as the compiler knows and can keep in registers.
template <class Stored, std::size_t kTerms, std::size_t kTargets>
class FixedOperands {
 public:
  explicit FixedOperands(const Reduction& reduction) {
    const AnyOperands<Stored> any(reduction);
    for (std::size_t i = 0; i < kTerms; ++i) terms_[i] = any.term(i);
    for (std::size_t i = 0; i < kTargets; ++i) targets_[i] = any.target(i);
  }
  [[nodiscard]] static constexpr std::size_t term_count() { return kTerms; }
  [[nodiscard]] static constexpr std::size_t target_count() { return kTargets; }
  [[nodiscard]] const Stored* term(std::size_t i) const { return terms_[i]; }
  [[nodiscard]] Stored* target(std::size_t i) const { return targets_[i]; }

 private:
  const Stored* terms_[kTerms];
  Stored* targets_[kTargets];
};

template <class L, class Operation>
class Reduce {
 public:
  static void run(const Reduction& reduction) {
    const AnyOperands<Stored> operands(reduction);
    const std::size_t count = reduction.terms[0].count;
    std::size_t i = reduce_most(reduction);
    for (; i + L::kCount <= count; i += L::kCount) {
      reduce_vectors<1>(operands, i, reduction.factor);
    }
    if (i < count) reduce_rest(operands, i, count - i, reduction.factor);
  }

 private:
  using Stored = typename L::Stored;
  using Lanes = typename L::Lanes;
  using Packed = typename L::Packed;

  static constexpr std::size_t kFewTerms = 8;
  static constexpr std::size_t kBlock = L::kBlockVectors;
  static constexpr std::size_t kPiece = 128;  // vectors

  // All whole blocks; returns where they end. Sums of gradients have loops of their own.
  static std::size_t reduce_most(const Reduction& reduction) {
    const std::size_t terms = reduction.term_count, targets = reduction.target_count;
    if constexpr (__is_base_of(Sum, Operation) && L::kIsFloatingPoint) {
      if (terms == 1 && targets == 1) return reduce_blocks<FixedOperands<Stored, 1, 1>>(reduction);
      if (terms == 2 && targets == 1) return reduce_blocks<FixedOperands<Stored, 2, 1>>(reduction);
      if (terms == 2 && targets == 2) return reduce_blocks<FixedOperands<Stored, 2, 2>>(reduction);
      if (terms == 3 && targets == 3) return reduce_blocks<FixedOperands<Stored, 3, 3>>(reduction);
      if (terms == 4 && targets == 4) return reduce_blocks<FixedOperands<Stored, 4, 4>>(reduction);
    }
    const std::size_t done = terms > kFewTerms ? reduce_pieces(reduction) : 0;
    return reduce_blocks<AnyOperands<Stored>>(reduction, done);
  }

  template <class Operands>
  static std::size_t reduce_blocks(const Reduction& reduction, std::size_t begin = 0) {
    constexpr std::size_t kElements = kBlock * L::kCount;
    const Operands operands(reduction);
    const std::size_t count = reduction.terms[0].count;
    const double factor = reduction.factor;
    std::size_t i = begin;
    for (; i + kElements <= count; i += kElements) reduce_vectors<kBlock>(operands, i, factor);
    return i;
  }

  template <std::size_t kVectors, class Operands>
  [[gnu::always_inline]] static void reduce_vectors(const Operands& operands, std::size_t begin,
                                                    double factor) {
    const std::size_t terms = operands.term_count(), targets = operands.target_count();
    Lanes sums[kVectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[v] = L::load(operands.term(0) + begin + v * L::kCount);
    }
#pragma GCC unroll 4
    for (std::size_t t = 1; t < terms; ++t) {
      const Stored* term = operands.term(t) + begin;
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[v] = L::template combine<Operation>(sums[v], L::load(term + v * L::kCount));
      }
    }
    Packed results[kVectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) results[v] = finish(sums[v], factor);
#pragma GCC unroll 4
    for (std::size_t t = 0; t < targets; ++t) {
      Stored* target = operands.target(t) + begin;
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVectors; ++v) L::store(results[v], target + v * L::kCount);
    }
  }

  // All whole pieces; returns where they end.
  static std::size_t reduce_pieces(const Reduction& reduction) {
    constexpr std::size_t kElements = kPiece * L::kCount;
    std::size_t i = 0;
    for (; i + kElements <= reduction.terms[0].count; i += kElements) reduce_piece(reduction, i);
    return i;
  }

  static void reduce_piece(const Reduction& reduction, std::size_t begin) {
    const AnyOperands<Stored> operands(reduction);
    Lanes sums[kPiece];
    for (std::size_t v = 0; v < kPiece; ++v) {
      sums[v] = L::load(operands.term(0) + begin + v * L::kCount);
    }
    for (std::size_t t = 1; t < reduction.term_count; ++t) {
      const Stored* term = operands.term(t) + begin;
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kPiece; ++v) {
        sums[v] = L::template combine<Operation>(sums[v], L::load(term + v * L::kCount));
      }
    }
    Packed results[kPiece];
    for (std::size_t v = 0; v < kPiece; ++v) results[v] = finish(sums[v], reduction.factor);
    for (std::size_t t = 0; t < reduction.target_count; ++t) {
      __builtin_memcpy(operands.target(t) + begin, results, sizeof(results));
    }
  }

  // Less than a vector.
  static void reduce_rest(const AnyOperands<Stored>& operands, std::size_t begin, std::size_t n,
                          double factor) {
    Stored part[L::kCount] = {};
    const auto load_part = [&](std::size_t t) {
      __builtin_memcpy(part, operands.term(t) + begin, n * sizeof(Stored));
      return L::load(part);
    };
    Lanes sum = load_part(0);
    for (std::size_t t = 1; t < operands.term_count(); ++t) {
      sum = L::template combine<Operation>(sum, load_part(t));
    }
    L::store(finish(sum, factor), part);
    for (std::size_t t = 0; t < operands.target_count(); ++t) {
      __builtin_memcpy(operands.target(t) + begin, part, n * sizeof(Stored));
    }
  }

  static Packed finish(Lanes sum, double factor) {
    if constexpr (Operation::kScales) sum = L::scale(sum, static_cast<typename L::Scalar>(factor));
    return L::pack(sum);
  }
};

}  // namespace
}  // namespace ddp::buffer_ops
