// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/text_dataset.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/files.h"
#include "support/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::TextDataset;
using ddp::test::error_of;

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

struct Sample {
  std::string tokens;
  std::string next;
};

Sample sample_of(const TextDataset& dataset, std::int64_t index, std::int64_t epoch = 0) {
  const auto context = static_cast<std::size_t>(dataset.input_shape()[0]);
  std::vector<std::int64_t> inputs(context, -1), labels(context, -1);
  dataset.gather(std::vector<std::int64_t>{index}, ddp::buffer_of(inputs), ddp::buffer_of(labels),
                 epoch);
  return {std::string(inputs.begin(), inputs.end()), std::string(labels.begin(), labels.end())};
}

}  // namespace

TEST_CASE("a text is cut into samples whose labels are the bytes that follow", "[data][text]") {
  const TextDataset dataset(bytes_of("In the beginning"), {.context = 5});
  REQUIRE(dataset.size() == 3);
  CHECK(sample_of(dataset, 0).tokens == "In th");
  CHECK(sample_of(dataset, 0).next == "n the");
  CHECK(sample_of(dataset, 2).tokens == "innin");
  CHECK(sample_of(dataset, 2).next == "nning");
  CHECK(sample_of(dataset, 2, 7).tokens == "innin");
}

TEST_CASE("a sample needs the byte behind its last one", "[data][text]") {
  CHECK(TextDataset(bytes_of("0123456789"), {.context = 5}).size() == 1);
  CHECK(TextDataset(bytes_of("0123456789a"), {.context = 5}).size() == 2);
  CHECK(error_of([] { TextDataset(bytes_of("01234"), {.context = 5}); }) ==
        "[text_dataset] a text of 5 bytes is too short: a sample has 5 and needs 1 more");
  CHECK(error_of([] { TextDataset({}, {.context = 0}); }) ==
        "[text_dataset] the context is 0, below 1");
}

TEST_CASE("bytes above 127 are tokens, too", "[data][text]") {
  const TextDataset dataset({0xC3, 0xBC, 0x00}, {.context = 2});
  std::vector<std::int64_t> inputs(2), labels(2);
  dataset.gather(std::vector<std::int64_t>{0}, ddp::buffer_of(inputs), ddp::buffer_of(labels));
  CHECK(inputs == std::vector<std::int64_t>{0xC3, 0xBC});
  CHECK(labels == std::vector<std::int64_t>{0xBC, 0});
}

TEST_CASE("with a shift seed each epoch cuts the text elsewhere, never beyond its end",
          "[data][text]") {
  std::vector<std::uint8_t> text;
  for (int i = 0; i < 80; ++i) text.push_back(static_cast<std::uint8_t>(i));
  const TextDataset dataset(text, {.context = 8, .shift_seed = 1});
  REQUIRE(dataset.size() == 9);
  std::set<int> shifts;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const int shift = sample_of(dataset, 0, epoch).tokens[0];
    shifts.insert(shift);
    const Sample last = sample_of(dataset, 8, epoch);
    CHECK(last.tokens[7] == shift + 71);
    CHECK(last.next[7] == shift + 72);
  }
  CHECK(shifts == std::set<int>{0, 1, 2, 3, 4, 5, 6, 7});
  text.pop_back();  // which a shift of 7 would need
  CHECK(TextDataset(text, {.context = 8, .shift_seed = 1}).size() == 8);
  CHECK(TextDataset(text, {.context = 8}).size() == 9);
}

TEST_CASE("a loader delivers tokens as int64, and refuses other types", "[data][text]") {
  const TextDataset dataset(bytes_of("abcdefghi"), {.context = 2});
  const ddp::ExactSampler sampler({.dataset_size = dataset.size(),
                                   .world_size = 1,
                                   .rank = 0,
                                   .global_batch_size = 4,
                                   .shuffle = false});
  ddp::DataLoader tokens(dataset, {.dtype = ddp::DType::kInt64});
  tokens.start(sampler.plan({}));
  const auto batch = tokens.next();
  REQUIRE(batch);
  CHECK(batch->inputs.as<std::int64_t>()[7] == 'h');
  CHECK(batch->labels.as<std::int64_t>()[7] == 'i');

  ddp::DataLoader floats(dataset, {.dtype = ddp::DType::kFloat32});
  floats.start(sampler.plan({}));
  CHECK_THAT(error_of([&] { (void)floats.next(); }),
             Contains("cannot read sample 0 of 4 in epoch 0, its inputs as float32 "
                      "(DataLoaderOptions::dtype): a buffer of float32[2]"));
}

TEST_CASE("a text file is read whole, whatever its size", "[data][text]") {
  const ddp::test::TemporaryDirectory directory;
  const fs::path file = directory.path() / "text";
  for (const std::size_t size :
       {0UL, 1UL, (1UL << 20) - 1, 1UL << 20, (1UL << 20) + 1, 3UL << 20}) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 / 7);
    ddp::test::write_bytes(file, bytes);
    const std::vector<std::uint8_t> text = ddp::read_text(file);
    CHECK(std::string(text.begin(), text.end()) == bytes);
  }
  CHECK_THAT(error_of([&] { (void)ddp::read_text(directory.path() / "none"); }),
             Contains("none") && Contains("No such file"));
}
