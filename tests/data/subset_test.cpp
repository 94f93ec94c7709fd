// SPDX-License-Identifier: MIT
#include "ddp/data/subset.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "ddp/data/data_loader.h"
#include "support/images.h"
#include "support/run_ranks.h"

namespace {

using Catch::Matchers::Contains;
using ddp::split;
using ddp::split_sizes;
using ddp::Subset;
using ddp::test::error_of;
using ddp::test::numbered_images;
using Indices = std::vector<std::int64_t>;
using Images = ddp::ImageDataset;

// They keep a reference to the dataset, so it must not be a temporary.
template <class Set>
constexpr bool kCanBeSplit = requires(Set&& set) {
  split(std::forward<Set>(set), {1.0}, 0);
};
static_assert(kCanBeSplit<const Images&> && !kCanBeSplit<Images>);
static_assert(std::is_constructible_v<Subset, const Images&, Indices> &&
              !std::is_constructible_v<Subset, Images, Indices>);
static_assert(std::is_constructible_v<ddp::DataLoader, Images&, ddp::DataLoaderOptions> &&
              !std::is_constructible_v<ddp::DataLoader, Images, ddp::DataLoaderOptions>);
using Sizes = std::vector<std::int64_t>;

std::string joined(const Indices& values, std::size_t count) {
  std::ostringstream out;
  for (std::size_t i = 0; i < count; ++i) out << (i == 0 ? "" : ",") << values[i];
  return values.empty() ? "-" : out.str();
}

// A subset in the format of make_split_reference.py.
std::string shown(const Indices& indices, std::int64_t dataset_size) {
  if (dataset_size <= 100) return joined(indices, indices.size());
  return std::to_string(indices.size()) + ":" +
         joined(indices, std::min<std::size_t>(indices.size(), 4));
}

std::vector<double> parse_fractions(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> fractions;
  for (std::string field; std::getline(in, field, ',');) fractions.push_back(std::stod(field));
  return fractions;
}

// The output of our split for the case in a line of split_vectors.txt.
std::string ours_for(const std::string& line) {
  std::istringstream in(line);
  std::int64_t size = 0;
  std::uint64_t seed = 0;
  std::string fractions;
  in >> size >> seed >> fractions;
  const ddp::ImageDataset dataset = numbered_images(size);
  std::ostringstream out;
  out << size << ' ' << seed << ' ' << fractions << " :";
  for (const Subset& subset : split(dataset, parse_fractions(fractions), seed)) {
    out << ' ' << shown(subset.indices(), size);
  }
  return out.str();
}

Indices range(std::int64_t end) {
  Indices values;
  for (std::int64_t i = 0; i < end; ++i) values.push_back(i);
  return values;
}

// The labels of all samples of a dataset.
Indices labels_of(const ddp::Dataset& dataset) {
  const auto size = static_cast<std::size_t>(dataset.size());
  std::vector<float> inputs(size * 4);
  Indices labels(size);
  dataset.gather(range(dataset.size()), ddp::buffer_of(inputs), ddp::buffer_of(labels));
  return labels;
}

}  // namespace

TEST_CASE("split gives the subsets that PyTorch's random_split gives", "[data][split]") {
  std::ifstream file(DDP_REFERENCE_DIR "/split_vectors.txt");
  REQUIRE(file);
  std::string line;
  std::getline(file, line);  // the version of PyTorch
  int checked = 0;
  while (std::getline(file, line)) {
    CAPTURE(line);
    REQUIRE(ours_for(line) == line);
    ++checked;
  }
  CHECK(checked == 243);
}

TEST_CASE("subsets are disjoint and follow the fractions", "[data][split]") {
  const ddp::ImageDataset dataset = numbered_images(1003);
  const auto subsets = split(dataset, {0.5, 0.3, 0.2}, 7);
  Indices all;
  for (const Subset& subset : subsets) {
    all.insert(all.end(), subset.indices().begin(), subset.indices().end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == range(1003));
  CHECK(split(dataset, {0.5, 0.3, 0.2}, 7)[1].indices() == subsets[1].indices());
  CHECK(split(dataset, {0.5, 0.3, 0.2}, 8)[1].indices() != subsets[1].indices());
}

TEST_CASE("samples left over by rounding go to the first subsets", "[data][split]") {
  CHECK(split_sizes(10, {0.33, 0.33, 0.34}) == Sizes{4, 3, 3});
  CHECK(split_sizes(0, {0.5, 0.5}) == Sizes{0, 0});
  CHECK(split_sizes(1, {0.1, 0.9}) == Sizes{1, 0});
  CHECK(split_sizes(5, {}).empty());
}

TEST_CASE("fractions below 1 leave samples out", "[data][split]") {
  CHECK(split_sizes(10, {0.2}) == Sizes{2});
  CHECK(split_sizes(5, {0.3, 0.3}) == Sizes{2, 1});
  CHECK(split_sizes(10, {0.7, 0.2}) == Sizes{7, 2});  // their sum is 0.8999999999999999
  CHECK(split_sizes(10, {0.05, 0.35}) == Sizes{1, 3});
  CHECK(split_sizes(10, {0.29, 0.61}) == Sizes{3, 6});
  CHECK(split_sizes(1000, {0.9995}) == Sizes{999});
  CHECK(split_sizes(7, {0.0, 0.0}) == Sizes{0, 0});
  // Ten times 0.1 is 0.9999999999999999, which must count as all samples.
  CHECK(split_sizes(10, std::vector<double>(10, 0.1)) == Sizes(10, 1));
  // A sum slightly above 1 must not use a sample twice.
  const std::int64_t huge = std::int64_t{1} << 40;
  const Sizes sizes = split_sizes(huge, {0.5, 0.5 + 5e-10});
  CHECK(sizes[0] + sizes[1] == huge);
}

TEST_CASE("bad fractions are refused with their values", "[data][split]") {
  CHECK(error_of([] {
          (void)split_sizes(10, {0.5, -0.1});
        }) == "[split] the fraction -0.1 is not in [0, 1]");
  CHECK(error_of([] { (void)split_sizes(10, {1.5}); }) ==
        "[split] the fraction 1.5 is not in [0, 1]");
  CHECK(error_of([] {
          (void)split_sizes(10, {0.6, 0.5});
        }) == "[split] the fractions 0.6 + 0.5 are 1.1 together, above 1");
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(split_sizes(10, {bad}), std::invalid_argument);
  }
}

TEST_CASE("a subset gathers the samples it names", "[data][subset]") {
  const ddp::ImageDataset dataset = numbered_images(100);
  const Subset subset(dataset, {7, 3, 3, 99});
  CHECK(subset.size() == 4);
  CHECK(ddp::elements_of(subset.input_shape()) == 4);
  CHECK(subset.label_shape().empty());
  CHECK(labels_of(subset) == Indices{7, 3, 3, 99});
  const Subset nested(subset, {3, 0});
  CHECK(labels_of(nested) == Indices{99, 7});
}

TEST_CASE("a subset refuses bad indices", "[data][subset]") {
  const ddp::ImageDataset dataset = numbered_images(10);
  CHECK(error_of([&] { const Subset subset(dataset, {10}); }) ==
        "[subset] index 10 is not in [0, 10)");
  const Subset subset(dataset, {1, 2});
  std::vector<float> inputs(4);
  Indices labels(1);
  CHECK(error_of([&] {
          subset.gather(Indices{2}, ddp::buffer_of(inputs), ddp::buffer_of(labels));
        }) == "[dataset] index 2 is not in [0, 2)");
}

TEST_CASE("a sample that cannot be read is named by its index in subset and whole set",
          "[data][subset]") {
  const ddp::ImageDataset dataset = numbered_images(10);
  const Subset subset(dataset, {1, 7});
  Indices inputs(4);  // of a type that images are not converted to
  Indices labels(1);
  CHECK_THAT(error_of([&] {
               subset.gather(Indices{1}, ddp::buffer_of(inputs), ddp::buffer_of(labels), 3);
             }),
             Contains("cannot read sample 1 of 2 in epoch 3: [subset] it is sample 7 of 10 of the "
                      "whole: ") &&
                 Contains("neither float32 nor float64"));
}
