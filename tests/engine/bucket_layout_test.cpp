// SPDX-License-Identifier: MIT
#include "ddp/engine/bucket_layout.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "ddp/engine/ready_order.h"

using namespace ddp;

namespace {

std::vector<GradientSpec> specs(std::initializer_list<std::size_t> counts) {
  std::vector<GradientSpec> result;
  for (const std::size_t count : counts) result.push_back({count, DType::kFloat32});
  return result;
}

// What happens if backward takes a unit of time for each byte of gradients, and reductions, one
// after the other, `link` times as long: how long the last reduction ends after backward.
double exposed(const BucketLayout& layout, double link) {
  double ready = 0;
  double reduced = 0;
  for (const BucketSpec& bucket : layout.buckets) {
    const auto size = static_cast<double>(bucket.size_bytes());
    ready += size;
    reduced = std::max(ready, reduced) + link * size;
  }
  return reduced - ready;
}

}  // namespace

TEST_CASE("buckets follow the reverse order and close at their cap", "[engine][layout]") {
  const auto gradients = specs({1000, 10, 1000, 10});
  BucketOptions options;
  options.bucket_bytes_cap = 4000;
  options.first_bucket_bytes_cap = 40;
  options.min_buckets = 1;
  const BucketLayout layout = lay_out_buckets(gradients, options);
  REQUIRE(layout.buckets.size() == 3);
  CHECK(layout.buckets[0].parameters == std::vector<std::size_t>{3});
  CHECK(layout.buckets[1].parameters == std::vector<std::size_t>{2});
  CHECK(layout.buckets[2].parameters == std::vector<std::size_t>{1, 0});
}

TEST_CASE("a gradient over the cap opens the next bucket", "[engine][layout]") {
  const BucketLayout layout =
      lay_out_buckets(specs({5000, 400, 500, 600}), {.bucket_bytes_cap = 4000, .min_buckets = 1});
  REQUIRE(layout.buckets.size() == 3);
  CHECK(layout.buckets[0].parameters == std::vector<std::size_t>{3});
  CHECK(layout.buckets[1].parameters == std::vector<std::size_t>{2, 1});
  CHECK(layout.buckets[2].parameters == std::vector<std::size_t>{0});
}

TEST_CASE("the last bucket is small, since no backward hides it", "[engine][layout]") {
  const auto gradients = specs({10, 20, 1000, 1000});
  const BucketOptions options{.last_bucket_bytes_cap = 200, .min_buckets = 1};
  const BucketLayout layout = lay_out_buckets(gradients, options);
  REQUIRE(layout.buckets.size() == 2);
  CHECK(layout.buckets[1].parameters == std::vector<std::size_t>{1, 0});
}

TEST_CASE("what is left of a bucket whose end is split off is launched when it is full",
          "[engine][layout]") {
  const DType wide = DType::kFloat32, narrow = DType::kBFloat16;
  const std::vector<GradientSpec> gradients = {
      {10, wide}, {100, narrow}, {100, narrow}, {1000, wide}, {1000, wide}};
  const BucketLayout layout =
      lay_out_buckets(gradients, {.last_bucket_bytes_cap = 200, .parts = 1, .min_buckets = 1});
  REQUIRE(layout.buckets.size() == 3);
  CHECK(layout.buckets[0].parameters == std::vector<std::size_t>{4, 3});
  CHECK(layout.buckets[1].parameters == std::vector<std::size_t>{2, 1});
  CHECK(layout.buckets[2].parameters == std::vector<std::size_t>{0});
}

TEST_CASE("gradients and buckets are aligned and do not overlap", "[engine][layout]") {
  const auto gradients = specs({1, 2, 63, 64, 65, 100000, 3});
  const BucketLayout layout = lay_out_buckets(gradients, {});
  std::size_t end_of_last = 0;
  for (const BucketSpec& bucket : layout.buckets) {
    CHECK(bucket.offset_bytes % kBucketAlignment == 0);
    CHECK(bucket.offset_bytes >= end_of_last);
    std::size_t end = 0;
    for (const std::size_t i : bucket.parameters) {
      const std::size_t offset = layout.slots[i].offset;
      CHECK(offset * size_of(bucket.dtype) % kGradientAlignment == 0);
      CHECK(offset >= end);
      end = offset + gradients[i].count;
    }
    CHECK(bucket.count == end);
    end_of_last = bucket.offset_bytes + end * size_of(bucket.dtype);
  }
  CHECK(layout.size_bytes >= end_of_last);
}

TEST_CASE("a small model is still cut into several buckets", "[engine][layout]") {
  CHECK(lay_out_buckets(specs({150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10}), {})
            .buckets.size() >= 4);  // LeNet-5
  CHECK(lay_out_buckets(specs({7, 8}), {}).buckets.size() == 2);
  CHECK(lay_out_buckets(specs({100, 100, 100, 100, 100, 100, 100, 100}), {}).buckets.size() >= 4);
}

TEST_CASE("dtypes do not share a bucket", "[engine][layout]") {
  const GradientSpec gradients[] = {{8, DType::kFloat32}, {8, DType::kBFloat16}};
  BucketOptions options;
  options.min_buckets = 1;
  CHECK(lay_out_buckets(gradients, options).buckets.size() == 2);
}

TEST_CASE("buckets follow the given order", "[engine][layout]") {
  const auto gradients = specs({1000, 10, 1000, 10});
  BucketOptions options;
  options.bucket_bytes_cap = 4000;
  options.min_buckets = 2;
  options.order = {1, 0, 3, 2};
  const BucketLayout layout = lay_out_buckets(gradients, options);
  std::vector<std::size_t> placed;
  for (const BucketSpec& bucket : layout.buckets) {
    placed.insert(placed.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  CHECK(placed == options.order);
  for (const std::vector<std::size_t>& wrong :
       {std::vector<std::size_t>{0, 1, 2}, {0, 1, 2, 2}, {1, 2, 3, 4}}) {
    options.order = wrong;
    CHECK_THROWS_AS(lay_out_buckets(gradients, options), std::invalid_argument);
  }
}

TEST_CASE("parameters of alternating dtypes fill one bucket per dtype, launched when full",
          "[engine][layout]") {
  std::vector<GradientSpec> gradients;
  for (int layer = 0; layer < 10; ++layer) {
    gradients.push_back({1000, DType::kBFloat16});
    gradients.push_back({10, DType::kFloat32});
  }
  const BucketLayout layout =
      lay_out_buckets(gradients, {.bucket_bytes_cap = 4000, .min_buckets = 1});
  std::size_t of_float32 = 0;
  std::size_t last_completion = gradients.size();
  for (const BucketSpec& bucket : layout.buckets) {
    of_float32 += bucket.dtype == DType::kFloat32 ? 1 : 0;
    CHECK(bucket.parameters.back() < last_completion);  // reverse order: the lowest is ready last
    last_completion = bucket.parameters.back();
  }
  CHECK(of_float32 == 1);
  CHECK(layout.buckets.size() == 6);
}

TEST_CASE("if the bucket order costs overlap, the advice gives a better order",
          "[engine][layout]") {
  const auto gradients = specs({100, 100, 100, 100});
  BucketOptions options{.bucket_bytes_cap = 400};
  const BucketLayout layout = lay_out_buckets(gradients, options);
  REQUIRE(layout.buckets.size() == 4);
  const std::vector<std::size_t> all = {0, 1, 2, 3};
  CHECK(order_advice(layout, std::vector<std::size_t>{3, 2, 1, 0}, all).empty());
  CHECK(order_advice(layout, std::vector<std::size_t>{3, 2}, all).empty());
  const std::vector<std::size_t> observed = {2, 1, 3, 0};  // gradient 3 completes the first bucket
  CHECK(cost_of_order(layout, observed).buckets == 2);
  CHECK_THAT(order_advice(layout, observed, all),
             Catch::StartsWith("2 of 4 buckets were full but had to wait") &&
                 Catch::EndsWith(".order = {2, 1, 3, 0}"));
  CHECK_THAT(order_advice(layout, observed, all, Packing::kDense),
             Catch::EndsWith("; register the parameters in the reverse of the order in which "
                             "gradients became ready: 0, 3, 1, 2"));
  options.order = observed;
  CHECK(order_advice(lay_out_buckets(gradients, options), observed, all).empty());

  // An unused gradient keeps all buckets waiting, unless the pass does not wait for it.
  const std::vector<std::size_t> without_3 = {2, 1, 0};
  CHECK_THAT(order_advice(layout, without_3, all),
             Catch::StartsWith("3 of 4 buckets were full but had to wait") &&
                 Catch::EndsWith(".order = {2, 1, 0, 3}"));
  CHECK(order_advice(layout, without_3, without_3).empty());
  const std::vector<std::size_t> without_2 = {3, 1, 0};
  CHECK(order_advice(layout, without_2, without_2).empty());
}

TEST_CASE("the advice of a model with many parameters has runs in place of all numbers",
          "[engine][layout]") {
  const std::vector<GradientSpec> gradients(3000, {100, DType::kFloat32});
  const BucketLayout layout = lay_out_buckets(gradients, {.bucket_bytes_cap = 400});
  std::vector<std::size_t> observed = {7, 9, 8};
  for (std::size_t i = 10; i < 2000; ++i) observed.push_back(i);
  for (std::size_t i = 3000; i-- > 2000;) observed.push_back(i);
  for (std::size_t i = 0; i < 7; ++i) observed.push_back(i);
  CHECK_THAT(order_advice(layout, observed, observed),
             Catch::EndsWith(".order = {7, 9, 8, 10 … 1999, 2999 … 2000, 0 … 6}"));
}

TEST_CASE("the caps of buckets shrink with the model and with what is left of it",
          "[engine][layout]") {
  const std::vector<GradientSpec> gradients(64, {(1 << 20) / sizeof(float), DType::kFloat32});
  const BucketLayout layout = lay_out_buckets(gradients, {.parts = 16});
  std::size_t left = gradients.size();
  for (const BucketSpec& bucket : layout.buckets) {
    CHECK(bucket.parameters.size() <= 4);
    CHECK(bucket.parameters.size() <= std::max<std::size_t>(1, left / 12));
    left -= bucket.parameters.size();
  }
  CHECK(layout.buckets.size() < 40);
  CHECK(lay_out_buckets(gradients, {.parts = 1}).buckets.size() == 6);
}

TEST_CASE("only the last bucket's reduction is exposed, even if the link is almost always busy",
          "[engine][layout]") {
  for (const std::size_t layers : {128, 256, 1024}) {
    const std::vector<GradientSpec> gradients(layers, {(1 << 18) / sizeof(float), DType::kFloat32});
    const BucketLayout layout = lay_out_buckets(gradients, {});
    const auto last = static_cast<double>(layout.buckets.back().size_bytes());
    for (const double link : {0.1, 0.25, 0.5, 0.75, 0.9}) {
      INFO(layers << " layers, link " << link);
      CHECK(exposed(layout, link) <= link * last * (1 + 1e-9));
    }
  }
}
