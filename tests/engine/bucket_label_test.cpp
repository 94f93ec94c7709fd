// SPDX-License-Identifier: MIT
#include "ddp/engine/bucket_label.h"

#include <catch2/catch.hpp>
#include <vector>

using ddp::bucket_label;

namespace {

std::string label_of(const std::vector<std::string>& names) { return bucket_label(4, names); }

}  // namespace

TEST_CASE("a bucket's label is what the names of its parameters have in common", "[bucket_label]") {
  CHECK(label_of({"layer3.0.conv.weight", "layer3.1.bias"}) == "bucket 4: layer3.*");
  CHECK(label_of({"layer3.0.conv.weight"}) == "bucket 4: layer3.0.conv.weight");
  CHECK(label_of({"fc.bias", "fc.weight"}) == "bucket 4: fc.*");
  CHECK(label_of({"layer30.bias", "layer3.bias"}) == "bucket 4: layer30.bias .. layer3.bias");
  CHECK(label_of({"w1", "w0"}) == "bucket 4: w1 .. w0");
  CHECK(label_of({"fc", "fc.bias"}) == "bucket 4: fc .. fc.bias");
}
