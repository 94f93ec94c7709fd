// SPDX-License-Identifier: MIT
#include "ddp/engine/control_fields.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ddp::ControlFields;

constexpr std::uint64_t kAnyFingerprint = 0xfedcba9876543210;

// The sums over ranks with these fingerprints, which have made a pass each.
std::vector<double> sums_of(const std::vector<std::uint64_t>& fingerprints) {
  const int world_size = static_cast<int>(fingerprints.size());
  std::vector<double> sums(ControlFields::count(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<double> own(sums.size());
    const std::uint64_t fingerprint = fingerprints[static_cast<std::size_t>(rank)];
    ControlFields(own.data(), world_size)
        .write_state(rank, {.fingerprint = fingerprint, .gradient_fingerprint = ~fingerprint}, 1);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  return sums;
}

}  // namespace

TEST_CASE("fingerprints of replicas agree only if all 64 bits are equal", "[engine]") {
  std::vector<double> equal = sums_of({kAnyFingerprint, kAnyFingerprint, kAnyFingerprint});
  CHECK(fingerprints_agree(ControlFields(equal.data(), 3)));
  for (int bit = 0; bit < 64; ++bit) {
    CAPTURE(bit);
    std::vector<double> sums =
        sums_of({kAnyFingerprint, kAnyFingerprint, kAnyFingerprint ^ (std::uint64_t{1} << bit)});
    CHECK_FALSE(fingerprints_agree(ControlFields(sums.data(), 3)));
  }
}

TEST_CASE("a rank's fingerprint of gradients arrives as it was sent", "[engine]") {
  std::vector<double> sums = sums_of({1, kAnyFingerprint});
  CHECK(ControlFields(sums.data(), 2).gradient_fingerprint(0) == ~std::uint64_t{1});
  CHECK(ControlFields(sums.data(), 2).gradient_fingerprint(1) == ~kAnyFingerprint);
}
