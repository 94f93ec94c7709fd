// SPDX-License-Identifier: MIT
//
// What a checkpoint's file holds, how damage is found, and which tensors fit.
#include "ddp/io/checkpoint_file.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "support/checkpoints.h"
#include "support/files.h"
#include "support/run_ranks.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::buffer_of;
using ddp::FloatCast;
using ddp::load_checkpoint;
using ddp::load_safetensors;
using ddp::NamedBuffer;
using ddp::restore_tensors;
using ddp::save_checkpoint;
using ddp::save_safetensors;
using ddp::test::bytes_of;
using ddp::test::damaged;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;
using ddp::test::value_in;
using ddp::test::write_bytes;
using Model = ddp::test::OneTensorModel;

TEST_CASE("the checksum equals the one that Python computes by the format's description",
          "[checkpoint]") {
  std::vector<float> weight = {1, -2};
  std::vector<std::uint8_t> mask = {7, 8, 9};
  const NamedBuffer tensors[] = {{"w", {2, 1}, buffer_of(weight)},
                                 {"m", {3}, buffer_of(mask)},
                                 {"n", {0, 4}, {nullptr, 0, ddp::DType::kFloat64}}};
  // zlib.crc32(b"epoch\0001\0step\0005\0m\0uint8\0003\0\7\10\11n\0float64\0000,4\0w\0float32\0002,1\0"
  //            + struct.pack("<ff", 1, -2))
  CHECK(checkpoint_checksum(tensors, {{"step", "5"}, {"epoch", "1"}, {"checksum", "x"}}) ==
        "607f702e");
}

TEST_CASE("a damaged checkpoint names the file and the first damaged tensor",
          "[checkpoint][damage]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  std::vector<float> values = {1, 2, 3, 4};
  const auto part = [&](std::size_t i) { return buffer_of(std::span(values).subspan(i, 1)); };
  // Not in the order of their names, as a model's are not.
  const std::vector<NamedBuffer> tensors = {
      {"b", {1}, part(0)}, {"c", {1}, part(1)}, {"a", {1}, part(2)}, {"d", {1}, part(3)}};
  save_checkpoint(file, tensors, {{"step", "5"}});
  const std::string good = bytes_of(file);
  const auto error_of_flip = [&](std::vector<std::size_t> places) {
    std::string bytes = good;
    for (const std::size_t at : places) bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_bytes(file, bytes);
    return error_of([&] { (void)load_checkpoint(file); });
  };
  const std::size_t data = good.size() - 4 * sizeof(float);
  const char* const names[] = {"b", "c", "a", "d"};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t byte = 0; byte < sizeof(float); ++byte) {
      CHECK_THAT(error_of_flip({data + i * sizeof(float) + byte}),
                 Contains(file.string()) &&
                     Contains("it is damaged, first in tensor \"" + std::string(names[i]) + "\""));
    }
  }
  CHECK_THAT(error_of_flip({data, data + 2 * sizeof(float)}), Contains("first in tensor \"a\""));
  CHECK_THAT(error_of_flip({good.find("\"step\":\"5") + 8}), Contains("first in the metadata"));
  CHECK_THAT(error_of_flip({good.find("\"checksum\":\"") + 12}), Contains("in its checksum"));
  CHECK_THAT(error_of_flip({good.find("\"checksums\":\"") + 22}),
             Contains("the list of checksums is damaged"));
}

TEST_CASE("weights are compared with their checksums if they have any", "[checkpoint][damage]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  Model model(3);
  for (const char* key : {"checksum", "checksums"}) {
    for (const char* value : {"of something else", "1a2b3c4d"}) {
      save_safetensors(file, model.tensors(), {{key, value}});
      CHECK(ddp::load_weights(file).tensors.size() == model.tensors().size());
    }
  }
  save_checkpoint(file, model.tensors(), {{"step", "5"}});
  CHECK(ddp::load_weights(file).tensors.size() == model.tensors().size());
  write_bytes(file, damaged(file, fs::file_size(file) - 1));
  CHECK_THAT(
      error_of([&] { (void)ddp::load_weights(file); }),
      Contains("cannot load " + file.string()) && Contains("it is damaged, first in tensor"));
  save_checkpoint(file, model.tensors(), {{"step", "5"}});
  const std::string bytes = bytes_of(file);
  for (const char* key : {"\"checksum\"", "\"checksums\""}) {
    const std::size_t in_key = bytes.find(key) + 1, in_value = bytes.find(':', in_key) + 3;
    for (const std::size_t place : {in_key, in_value}) {
      std::string changed = bytes;
      changed[place] = 'C';
      write_bytes(file, changed);
      CHECK_THROWS_AS(ddp::load_weights(file), ddp::FileError);
    }
  }
}

TEST_CASE("a checkpoint without a list of checksums, as they were once, is read and checked",
          "[checkpoint][damage]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  Model model(3);
  save_safetensors(
      file, model.tensors(),
      {{"checksum", checkpoint_checksum(model.tensors(), {{"step", "5"}})}, {"step", "5"}});
  CHECK(value_in(file) == 3);
  write_bytes(file, damaged(file, fs::file_size(file) - 1));
  CHECK_THAT(error_of([&] { (void)load_checkpoint(file); }),
             Contains(file.string()) && Contains("so it is damaged") && !Contains("first in"));
}

TEST_CASE("a checkpoint with a bit changed anywhere, or cut short, is refused",
          "[checkpoint][damage]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  Model model(3);
  save_checkpoint(file, model.tensors(), {{"step", "5"}});
  const std::string good = bytes_of(file);
  CHECK(value_in(file) == 3);
  const auto is_refused = [&](const std::string& bytes) {
    write_bytes(file, bytes);
    try {
      (void)load_checkpoint(file);
    } catch (const ddp::FileError& error) {
      return describe(error).find(file.string()) != std::string::npos;
    }
    return false;
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 5}) {  // 5: a letter's case, a space to a zero byte
      CAPTURE(at, bit);
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      REQUIRE(is_refused(bad));
    }
    REQUIRE(is_refused(good.substr(0, at)));
  }
  CHECK(is_refused(good + "x"));
  save_safetensors(file, model.tensors());
  CHECK_THAT(error_of([&] { (void)load_checkpoint(file); }), Contains("it has no checksum"));
}

TEST_CASE("tensors that do not fit are named, and nothing is overwritten", "[checkpoint]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  std::vector<float> saved = {1, 2, 3, 4, 5, 6};
  const NamedBuffer a{"a", {2}, buffer_of(std::span(saved).first(2))};
  const NamedBuffer b{"b", {2, 2}, buffer_of(std::span(saved).last(4))};
  std::vector<float> live(6);
  const NamedBuffer to_a{"a", {2}, buffer_of(std::span(live).first(2))};
  NamedBuffer to_b{"b", {2, 2}, buffer_of(std::span(live).last(4))};
  const auto restore_error = [&](const std::vector<NamedBuffer>& from,
                                 const std::vector<NamedBuffer>& to) {
    save_checkpoint(file, from, {});
    return error_of([&] { restore_tensors(file, load_checkpoint(file), to); });
  };
  const std::string origin = "[checkpoint] " + file.string() + ": tensor ";
  CHECK(restore_error({a}, {to_a, to_b}) == origin + "\"b\" is missing");
  CHECK(restore_error({a}, {to_a, to_a}) == "[checkpoint] two targets have the name \"a\"");
  CHECK(restore_error({a, b}, {to_a}) ==
        origin + "\"b\" is in the file, but nothing in this program has that name");
  const NamedBuffer short_b{"b", {2, 2}, buffer_of(std::span(live).last(3))};
  CHECK_THAT(restore_error({a, b}, {to_a, short_b}),
             Contains("the shape of target \"b\" has another number of elements than its memory"));
  to_b.shape = {4};
  CHECK(restore_error({a, b}, {to_a, to_b}) ==
        origin + "\"b\" is float32[2, 2] in the file and float32[4] in this program");
  std::vector<double> wide(4);
  CHECK(restore_error({a, b}, {to_a, {"b", {2, 2}, buffer_of(wide)}}) ==
        origin + "\"b\" is float32[2, 2] in the file and float64[2, 2] in this program");
  CHECK(live == std::vector<float>(6));
  to_b.shape = {2, 2};
  CHECK(restore_error({a, b}, {to_b, to_a}).empty());
  CHECK(live == saved);
}

TEST_CASE("floating-point tensors become the targets' dtypes, if that is asked for",
          "[checkpoint][cast]") {
  using ddp::BFloat16;
  using ddp::Float16;
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  const auto restored = [&](auto saved, auto live, FloatCast cast) {
    const NamedBuffer from{"module.w", {4}, buffer_of(saved)};
    const NamedBuffer to{"w", {4}, buffer_of(live)};
    save_safetensors(file, {&from, 1});
    restore_tensors(file, load_safetensors(file), {&to, 1}, {.cast = cast});
    return live;
  };
  // 1.00390625 is exact in float16, 2^-130 in bfloat16, and the rest in both.
  const std::vector<Float16> halves = {Float16(1.00390625F), Float16(-2), Float16(0x1p-24F),
                                       Float16(65504)};
  const std::vector<BFloat16> brains = {BFloat16(1.5F), BFloat16(-2), BFloat16(0x1p-130F),
                                        BFloat16(0x1p127F)};
  const std::vector<float> floats = {0.1F, -2, 0x1p-149F, 3e38F};
  const std::vector<float> widened_halves = {1.00390625F, -2, 0x1p-24F, 65504};
  const std::vector<float> widened_brains = {1.5F, -2, 0x1p-130F, 0x1p127F};
  const auto doubles = [](const std::vector<float>& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  const std::vector<float> f32(4);
  const std::vector<double> f64(4);
  for (const FloatCast cast : {FloatCast::kExact, FloatCast::kAny}) {
    CHECK(restored(halves, f32, cast) == widened_halves);
    CHECK(restored(halves, f64, cast) == doubles(widened_halves));
    CHECK(restored(brains, f32, cast) == widened_brains);
    CHECK(restored(brains, f64, cast) == doubles(widened_brains));
    CHECK(restored(floats, f64, cast) == doubles(floats));
    CHECK(restored(floats, f32, cast) == floats);
  }

  const auto bits = [](const auto& values) {
    std::vector<std::uint16_t> result;
    for (const auto value : values) result.push_back(value.bits());
    return result;
  };
  const std::vector<Float16> f16(4);
  const std::vector<BFloat16> bf16(4);
  using Bits = std::vector<std::uint16_t>;
  CHECK(bits(restored(floats, f16, FloatCast::kAny)) == Bits{0x2e66, 0xc000, 0, 0x7c00});
  CHECK(bits(restored(halves, bf16, FloatCast::kAny)) == Bits{0x3f80, 0xc000, 0x3380, 0x4780});
  CHECK(restored(std::vector<double>{0.1, 1e300, -2, 0}, f32, FloatCast::kAny) ==
        std::vector<float>{0.1F, std::numeric_limits<float>::infinity(), -2, 0});

  const auto error = [&](const auto& saved, const auto& live, FloatCast cast) {
    return error_of([&] { (void)restored(saved, live, cast); });
  };
  const std::string origin = "[checkpoint] " + file.string() + ": tensor \"w\" is ";
  CHECK(error(halves, f32, FloatCast::kNone) ==
        origin + "float16[4] in the file and float32[4] in this program");
  CHECK(error(floats, f16, FloatCast::kExact) ==
        origin + "float32[4] in the file and float16[4] in this program, which would round it");
  CHECK(error(f64, f32, FloatCast::kExact) ==
        origin + "float64[4] in the file and float32[4] in this program, which would round it");
  CHECK(error(halves, bf16, FloatCast::kExact) ==
        origin + "float16[4] in the file and bfloat16[4] in this program, which would round it");
  CHECK(error(brains, f16, FloatCast::kExact) ==
        origin + "bfloat16[4] in the file and float16[4] in this program, which would round it");
  const std::vector<std::int32_t> integers(4);
  for (const FloatCast cast : {FloatCast::kExact, FloatCast::kAny}) {
    CHECK(error(integers, f64, cast) ==
          origin + "int32[4] in the file and float64[4] in this program");
    CHECK(error(halves, std::vector<std::int64_t>(4), cast) ==
          origin + "float16[4] in the file and int64[4] in this program");
    CHECK(error(integers, std::vector<std::int64_t>(4), cast) ==
          origin + "int32[4] in the file and int64[4] in this program");
  }
}

TEST_CASE("a tensor that cannot be converted leaves all others as they are", "[checkpoint][cast]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  std::vector<ddp::BFloat16> narrow = {ddp::BFloat16(3)};
  std::vector<double> wide = {4};
  std::vector<float> a = {1}, b = {2};
  const std::vector<NamedBuffer> from = {{"a", {1}, buffer_of(narrow)},
                                         {"b", {1}, buffer_of(wide)}};
  const std::vector<NamedBuffer> to = {{"a", {1}, buffer_of(a)}, {"b", {1}, buffer_of(b)}};
  const std::vector<NamedBuffer> part = {to[0], {"c", {1}, buffer_of(b)}};
  save_safetensors(file, from);
  const ddp::Safetensors loaded = load_safetensors(file);
  CHECK_THROWS_AS(restore_tensors(file, loaded, to, {.cast = FloatCast::kExact}), ddp::FileError);
  CHECK_THROWS_AS(
      restore_tensors(file, loaded, to, {.skip_unmatched = true, .cast = FloatCast::kExact}),
      ddp::FileError);
  CHECK_THROWS_AS(restore_tensors(file, loaded, part, {.skip_unmatched = true}), ddp::FileError);
  CHECK(a[0] == 1);
  const ddp::UnmatchedNames names =
      restore_tensors(file, loaded, part, {.skip_unmatched = true, .cast = FloatCast::kExact});
  CHECK(names.missing == std::vector<std::string>{"c"});
  CHECK(names.unexpected == std::vector<std::string>{"b"});
  CHECK(a[0] == 3);
  CHECK(b[0] == 2);
}

TEST_CASE("names under PyTorch's wrapper are accepted", "[checkpoint]") {
  const TemporaryDirectory directory;
  std::vector<float> saved = {1, 2};
  std::vector<float> live(2);
  const NamedBuffer wrapped{"module.fc1.weight", {2}, buffer_of(saved)};
  const NamedBuffer bare{"fc1.weight", {2}, buffer_of(live)};
  save_checkpoint(directory / "file", {&wrapped, 1}, {});
  restore_tensors(directory / "file", load_checkpoint(directory / "file"), {&bare, 1});
  CHECK(live == saved);
}

TEST_CASE("tensors that both sides have are restored, and the others' names returned",
          "[checkpoint]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  using Names = std::vector<std::string>;
  std::vector<float> saved = {1, 2, 3, 4}, live(4);
  const auto part = [](std::vector<float>& values, std::size_t i) {
    return buffer_of(std::span(values).subspan(i, 1));
  };
  const std::vector<NamedBuffer> from = {{"module.a", {1}, part(saved, 0)},
                                         {"z", {1}, part(saved, 1)},
                                         {"b", {1}, part(saved, 2)},
                                         {"old", {1}, part(saved, 3)}};
  save_checkpoint(file, from, {});
  const ddp::Safetensors loaded = load_checkpoint(file);
  const std::vector<NamedBuffer> to = {{"new", {1}, part(live, 0)},
                                       {"b", {1}, part(live, 1)},
                                       {"a", {1}, part(live, 2)},
                                       {"also_new", {1}, part(live, 3)}};
  const ddp::UnmatchedNames names = restore_tensors(file, loaded, to, {.skip_unmatched = true});
  CHECK(names.missing == Names{"new", "also_new"});
  CHECK(names.unexpected == Names{"z", "old"});
  CHECK(live == std::vector<float>{0, 3, 1, 0});

  const auto error = [&](const std::vector<NamedBuffer>& targets) {
    return error_of([&] { restore_tensors(file, loaded, targets, {.skip_unmatched = true}); });
  };
  const std::string origin = "[checkpoint] " + file.string() + ": ";
  std::vector<float> both(2);
  CHECK(error({{"z", {1}, part(live, 0)}, {"b", {2}, buffer_of(both)}}) ==
        origin + "tensor \"b\" is float32[1] in the file and float32[2] in this program");
  CHECK(error({{"encoder.a", {1}, part(live, 0)}, {"encoder.b", {1}, part(live, 1)}}) ==
        origin +
            "it has none of this program's 2 tensors, such as \"encoder.a\"; its own 4 are "
            "such as \"module.a\"");
  CHECK(live == std::vector<float>{0, 3, 1, 0});
  CHECK(error({}).empty());
  const ddp::Safetensors nothing;
  CHECK(error_of([&] { restore_tensors(file, nothing, to, {.skip_unmatched = true}); }) ==
        origin + "it has no tensors");
}

TEST_CASE("tensors of another shape can be left as they are, and are named", "[checkpoint]") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "file";
  using Names = std::vector<std::string>;
  std::vector<float> saved = {1, 2, 3, 4}, live(4);
  const auto part = [](std::vector<float>& values, std::size_t at, std::size_t n) {
    return buffer_of(std::span(values).subspan(at, n));
  };
  save_safetensors(file, std::vector<NamedBuffer>{{"module.fc.weight", {2}, part(saved, 0, 2)},
                                                  {"a", {1}, part(saved, 2, 1)},
                                                  {"old", {1}, part(saved, 3, 1)}});
  const ddp::Safetensors loaded = load_safetensors(file);
  std::vector<NamedBuffer> to = {{"new", {1}, part(live, 0, 1)},
                                 {"fc.weight", {1}, part(live, 1, 1)},
                                 {"a", {1}, part(live, 2, 1)}};
  const ddp::UnmatchedNames names =
      restore_tensors(file, loaded, to, {.skip_unmatched = true, .skip_other_shapes = true});
  CHECK(names.missing == Names{"new"});
  CHECK(names.mismatched == Names{"fc.weight"});
  CHECK(names.unexpected == Names{"old"});
  CHECK(live == std::vector<float>{0, 0, 3, 0});

  const auto error = [&](const std::vector<NamedBuffer>& targets) {
    return error_of([&] {
      restore_tensors(file, loaded, targets, {.skip_unmatched = true, .skip_other_shapes = true});
    });
  };
  const std::string origin = "[checkpoint] " + file.string() + ": ";
  to[2].shape = {1, 1};
  CHECK(error(to) == origin +
                         "it has 2 of this program's tensors, such as \"fc.weight\", but all of "
                         "them in another shape");
  CHECK_THAT(error({{"b", {1}, part(live, 0, 1)}}), Contains("it has none of this program's 1 "));
  std::vector<double> wide(1);
  CHECK_THAT(error({{"a", {1}, buffer_of(wide)}}),
             Contains("tensor \"a\" is float32[1] in the file and float64[1] in this program"));
  CHECK(live == std::vector<float>{0, 0, 3, 0});
  const NamedBuffer a{"a", {1}, buffer_of(wide)};
  restore_tensors(file, loaded, {&a, 1},
                  {.skip_unmatched = true, .skip_other_shapes = true, .cast = FloatCast::kExact});
  CHECK(wide[0] == 3);
}
