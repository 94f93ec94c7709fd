// SPDX-License-Identifier: MIT
#include "ddp/data/sampled_fingerprint.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/run_ranks.h"

namespace {

using ddp::Buffer;
using ddp::DType;
using ddp::sampled_fingerprint;
using Indices = std::vector<std::int64_t>;

// Samples whose inputs have three elements; records which were read.
class Numbers final : public ddp::Dataset {
 public:
  explicit Numbers(std::size_t count) : numbers_(count) {
    for (std::size_t i = 0; i < count; ++i) numbers_[i] = static_cast<double>(i);
  }

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(numbers_.size());
  }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return kShape; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return {}; }
  [[nodiscard]] DType label_dtype(DType) const override { return DType::kInt64; }
  void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
            const Buffer& label) const override {
    REQUIRE(epoch == 0);
    read_.push_back(index);
    const double number = numbers_[static_cast<std::size_t>(index)];
    for (float& element : input.as<float>()) element = static_cast<float>(number);
    if (index == last_element_of_) input.as<float>()[2] = -1;
    label.as<std::int64_t>()[0] = static_cast<std::int64_t>(index == label_of_ ? -1 : number);
  }

  void swap(std::size_t a, std::size_t b) { std::swap(numbers_[a], numbers_[b]); }
  // Changes the last element of an input, or a label.
  void change_last_element_of(std::int64_t index) { last_element_of_ = index; }
  void change_label_of(std::int64_t index) { label_of_ = index; }

  // The indices that a fingerprint reads.
  [[nodiscard]] Indices sampled(std::int64_t samples) const {
    read_.clear();
    static_cast<void>(sampled_fingerprint(*this, DType::kFloat32, samples));
    return read_;
  }

 private:
  static constexpr std::int64_t kShape[] = {3};
  std::vector<double> numbers_;
  std::int64_t last_element_of_ = -1;
  std::int64_t label_of_ = -1;
  mutable Indices read_;
};

std::uint64_t fingerprint_of(const ddp::Dataset& dataset) {
  return sampled_fingerprint(dataset, DType::kFloat32, 64);
}

}  // namespace

TEST_CASE("a fingerprint reads evenly spread samples with the first and the last", "[data]") {
  CHECK(Numbers(0).sampled(3).empty());
  CHECK(Numbers(1).sampled(3) == Indices{0});
  CHECK(Numbers(2).sampled(3) == Indices{0, 1});
  CHECK(Numbers(3).sampled(3) == Indices{0, 1, 2});
  CHECK(Numbers(101).sampled(3) == Indices{0, 50, 100});
  CHECK(Numbers(101).sampled(1) == Indices{0});
  const Indices many = Numbers(100'003).sampled(64);
  CHECK(many.size() == 64);
  CHECK(many.back() == 100'002);
}

TEST_CASE("equal data have one fingerprint, and a change of a sample that is read another one",
          "[data]") {
  const std::uint64_t expected = fingerprint_of(Numbers(50));
  CHECK(fingerprint_of(Numbers(50)) == expected);
  CHECK(fingerprint_of(Numbers(49)) != expected);
  for (const std::int64_t index : {0, 1, 25, 49}) {
    INFO("sample " << index);
    Numbers other_input(50), other_label(50), other_order(50);
    other_input.change_last_element_of(index);
    other_label.change_label_of(index);
    other_order.swap(static_cast<std::size_t>(index), 7);
    CHECK(fingerprint_of(other_input) != expected);
    CHECK(fingerprint_of(other_label) != expected);
    CHECK(fingerprint_of(other_order) != expected);
  }
}

TEST_CASE("a fingerprint of no samples is refused", "[data]") {
  CHECK(ddp::test::error_of([] { static_cast<void>(Numbers(2).sampled(0)); }) ==
        "[sampled_fingerprint] samples is 0, below 1");
}
