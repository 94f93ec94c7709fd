// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/process_status.h"
#include "ddp/io/atomic_file.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "soak/checkpoint_kills.h"
#include "support/file_size_limit.h"
#include "support/files.h"
#include "support/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::buffer_of;
using ddp::CheckpointDirectory;
using ddp::CheckpointName;
using ddp::find_number;
using ddp::FloatCast;
using ddp::load_checkpoint;
using ddp::load_safetensors;
using ddp::LoadedCheckpoint;
using ddp::metadata_text;
using ddp::NamedBuffer;
using ddp::restore_fitting_tensors;
using ddp::restore_matching_tensors;
using ddp::restore_tensors;
using ddp::save_checkpoint;
using ddp::save_safetensors;
using ddp::test::bytes_of;
using ddp::test::entries_of;
using ddp::test::error_of;
using ddp::test::FileSizeLimit;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

constexpr CheckpointName after_epoch(std::int64_t epochs) { return {.epochs = epochs, .step = {}}; }

// A model of one tensor "w" with two equal elements.
class Model {
 public:
  explicit Model(float value) : values_{value, value} {}

  [[nodiscard]] std::vector<NamedBuffer> tensors() { return {{"w", {2}, buffer_of(values_)}}; }
  [[nodiscard]] float value() const { return values_[0] == values_[1] ? values_[0] : -1; }

 private:
  std::vector<float> values_;
};

void save(CheckpointDirectory& directory, std::int64_t epochs, bool is_best = false) {
  Model model(static_cast<float>(epochs));
  directory.save({.name = after_epoch(epochs), .metadata = {}, .is_best = is_best},
                 model.tensors());
}

float value_in(const fs::path& file) {
  Model model(-1);
  restore_tensors(file, load_checkpoint(file), model.tensors());
  return model.value();
}

float newest_value(const fs::path& path) {
  CheckpointDirectory directory({.path = path});
  return value_in(directory.load_newest().value().path);
}

std::string damaged(const fs::path& file, std::size_t at = 0) {
  std::string bytes = bytes_of(file);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

// The pid of a process that has ended.
pid_t dead_pid() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

}  // namespace

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
  CHECK(restore_error({a, b}, {to_a}) ==
        origin + "\"b\" is in the file, but nothing in this program has that name");
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
    restore_tensors(file, load_safetensors(file), {&to, 1}, {}, cast);
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
  CHECK_THROWS_AS(restore_tensors(file, loaded, to, {}, FloatCast::kExact), ddp::FileError);
  CHECK_THROWS_AS(restore_matching_tensors(file, loaded, to, {}, FloatCast::kExact),
                  ddp::FileError);
  CHECK_THROWS_AS(restore_matching_tensors(file, loaded, part), ddp::FileError);
  CHECK(a[0] == 1);
  const ddp::UnmatchedNames names =
      restore_matching_tensors(file, loaded, part, {}, FloatCast::kExact);
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
  const ddp::UnmatchedNames names = restore_matching_tensors(file, loaded, to);
  CHECK(names.missing == Names{"new", "also_new"});
  CHECK(names.unexpected == Names{"z", "old"});
  CHECK(live == std::vector<float>{0, 3, 1, 0});

  const auto error = [&](const std::vector<NamedBuffer>& targets) {
    return error_of([&] { (void)restore_matching_tensors(file, loaded, targets); });
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
  CHECK(error_of([&] { (void)restore_matching_tensors(file, nothing, to); }) ==
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
  const ddp::UnmatchedNames names = restore_fitting_tensors(file, loaded, to);
  CHECK(names.missing == Names{"new"});
  CHECK(names.mismatched == Names{"fc.weight"});
  CHECK(names.unexpected == Names{"old"});
  CHECK(live == std::vector<float>{0, 0, 3, 0});

  const auto error = [&](const std::vector<NamedBuffer>& targets) {
    return error_of([&] { (void)restore_fitting_tensors(file, loaded, targets); });
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
  (void)restore_fitting_tensors(file, loaded, {&a, 1}, {}, FloatCast::kExact);
  CHECK(wide[0] == 3);
}

TEST_CASE("checkpoints are named, and ordered by progress", "[checkpoint]") {
  const CheckpointName inside{.epochs = 2, .step = 1100};
  CHECK(to_string(after_epoch(2)) == "model_epoch_2.safetensors");
  CHECK(to_string(inside) == "model_epoch_2_step_1100.safetensors");
  CHECK(after_epoch(2) < inside);
  CHECK(inside < after_epoch(3));
  CHECK(after_epoch(9) < after_epoch(10));
  for (const CheckpointName& name : {after_epoch(0), after_epoch(12), inside}) {
    CHECK(ddp::parse_checkpoint_name(to_string(name)) == name);
  }
  for (const char* text :
       {"", "model_epoch_", "model_epoch_x.safetensors", "model_epoch_-1.safetensors",
        "model_epoch_007.safetensors", "model_epoch_1_step_.safetensors", "model_best.safetensors",
        "../model_epoch_1.safetensors", "model_epoch_1.safetensors.tmp.1.0",
        "model_epoch_99999999999999999999.safetensors"}) {
    CAPTURE(text);
    CHECK_FALSE(ddp::parse_checkpoint_name(text));
  }
}

TEST_CASE("the newest K and the best are kept", "[checkpoint][directory]") {
  const TemporaryDirectory parent;
  const fs::path path = parent / "a/b";
  CheckpointDirectory directory({.path = path, .keep = 2});
  CHECK_FALSE(directory.load_newest());
  for (const int epoch : {1, 2, 3, 4, 5}) save(directory, epoch, epoch == 2);
  CHECK(bytes_of(path / "latest") == "model_epoch_5.safetensors\nmodel_epoch_4.safetensors\n");
  CHECK(entries_of(path) == 4);
  CHECK(newest_value(path) == 5);
  CHECK(value_in(path / "model_best.safetensors") == 2);
  save(directory, 6, true);
  CHECK(value_in(path / "model_best.safetensors") == 6);
  save(directory, 6, true);  // saved again, as after a resume
  CHECK(bytes_of(path / "latest") == "model_epoch_6.safetensors\nmodel_epoch_5.safetensors\n");
  CHECK(entries_of(path) == 4);

  CheckpointDirectory all({.path = path, .keep = 0});
  for (const int epoch : {7, 8, 9}) save(all, epoch);
  CHECK(all.names().size() == 5);
  CHECK_THROWS_AS(CheckpointDirectory({.path = path, .keep = -1}), std::invalid_argument);
}

TEST_CASE("numbers in a checkpoint's metadata are read back exactly, or named",
          "[checkpoint][directory]") {
  const TemporaryDirectory folder;
  CheckpointDirectory directory({.path = folder.path()});
  const std::vector<NamedBuffer> none;
  directory.save({.name = {.epochs = 1},
                  .metadata = {{"epoch", metadata_text(1)},
                               {"best", metadata_text(0.1 + 0.2)},
                               {"loss", "0.5 or so"}}},
                 none);
  const LoadedCheckpoint loaded = directory.load_newest().value();
  CHECK(loaded.number<int>("epoch") == 1);
  CHECK(loaded.number<double>("best") == 0.1 + 0.2);
  const std::string file = "[checkpoint] " + loaded.path.string() + ": ";
  CHECK(error_of([&] { (void)loaded.number<double>("lr"); }) ==
        file + "it has no lr in its metadata");
  CHECK(error_of([&] { (void)loaded.number<double>("loss"); }) ==
        file + "its loss is \"0.5 or so\"");
  CHECK(error_of([&] { (void)loaded.number<int>("best"); }) ==
        file + "its best is \"0.30000000000000004\"");
  CHECK(find_number<int>(loaded.content.metadata, "lr") == std::nullopt);
}

TEST_CASE("a checkpoint whose name would not be recognised is not saved",
          "[checkpoint][directory]") {
  const TemporaryDirectory place;
  CheckpointDirectory directory({.path = place.path()});
  CHECK(error_of([&] { save(directory, -1); }) ==
        "[checkpoint] model_epoch_-1.safetensors: epochs and steps count from 0");
  Model model(1);
  CHECK_THROWS_AS(
      directory.save({.name = {.epochs = 0, .step = -1}, .metadata = {}}, model.tensors()),
      std::invalid_argument);
  CHECK(entries_of(place.path()) == 0);
}

TEST_CASE("a file that is not listed is left alone", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 1});
  save(checkpoints, 2);
  write_bytes(directory / "model_epoch_1.safetensors", "mine");
  save(checkpoints, 3);
  CHECK(bytes_of(directory / "model_epoch_1.safetensors") == "mine");
  CHECK_FALSE(fs::exists(directory / "model_epoch_2.safetensors"));
}

TEST_CASE("a damaged newest checkpoint is skipped", "[checkpoint][directory][damage]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  for (const int epoch : {1, 2, 3}) save(writer, epoch);
  const fs::path newest = directory / "model_epoch_3.safetensors";
  write_bytes(newest, damaged(newest, fs::file_size(newest) - 1));
  CheckpointDirectory reader({.path = directory.path()});
  CHECK(value_in(reader.load_newest().value().path) == 2);
  CHECK(reader.names() == std::vector<CheckpointName>{after_epoch(2), after_epoch(1)});
  save(reader, 3);
  CHECK(newest_value(directory.path()) == 3);

  for (const int epoch : {1, 2, 3}) {
    fs::remove(directory / to_string(after_epoch(epoch)));
  }
  CheckpointDirectory empty({.path = directory.path()});
  CHECK_THAT(error_of([&] { (void)empty.load_newest(); }),
             Contains("none of 3 checkpoints in " + directory.path().string()) &&
                 Contains("model_epoch_3.safetensors: cannot be opened: No such file"));
}

TEST_CASE("a newest checkpoint that the system cannot read is an error and is not skipped",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  for (const int epoch : {1, 2}) save(writer, epoch);
  const fs::path newest = directory / "model_epoch_2.safetensors";
  fs::remove(newest);
  fs::create_symlink(newest, newest);
  CheckpointDirectory reader({.path = directory.path()});
  CHECK_THROWS_AS(reader.load_newest(), ddp::FileError);
  CHECK_THAT(error_of([&] { (void)reader.load_newest(); }),
             Contains(newest.string() + ": cannot be opened: Too many levels of symbolic links"));
  fs::remove(newest);  // as if a user had deleted it
  CHECK(newest_value(directory.path()) == 1);
}

TEST_CASE("a list that the system cannot read is an error, too", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  save(writer, 1);
  fs::remove(directory / "latest");
  fs::create_symlink("/proc/self/mem", directory / "latest");  // its first page cannot be read
  CHECK_THAT(error_of([&] { const CheckpointDirectory reader({.path = directory.path()}); }),
             Contains("cannot read " + directory.path().string()) &&
                 Contains("latest: cannot be read: Input/output error"));
}

TEST_CASE("without a list the order follows from the names", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path(), .keep = 0});
  for (const int epoch : {1, 9, 10}) save(writer, epoch);
  fs::remove(directory / "latest");
  CHECK(newest_value(directory.path()) == 10);
  for (const char* nonsense : {"", "\n", "/etc/passwd\n", "model_epoch_9.safetensors\n\xff"}) {
    write_bytes(directory / "latest", nonsense);
    CHECK(newest_value(directory.path()) == 10);
  }
  write_bytes(directory / "latest", "model_epoch_9.safetensors\n");
  CHECK(newest_value(directory.path()) == 9);
}

TEST_CASE("after a resume from an earlier checkpoint, later ones are not listed",
          "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 2});
  for (const int epoch : {4, 5}) save(checkpoints, epoch);
  checkpoints.go_back_to(after_epoch(4));
  save(checkpoints, 4);
  CHECK(bytes_of(directory / "latest") == "model_epoch_4.safetensors\n");
  CHECK(fs::exists(directory / "model_epoch_5.safetensors"));
  CHECK(newest_value(directory.path()) == 4);
}

TEST_CASE("a full disk is an error that names file and tensor, and the old file remains",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 1});
  save(checkpoints, 1, true);
  std::vector<double> values(10000);
  const NamedBuffer large{"fc1.weight", {10000}, buffer_of(values)};
  std::string error;
  {
    const FileSizeLimit full(4096);
    error = error_of([&] {
      checkpoints.save({.name = after_epoch(2), .metadata = {}, .is_best = true}, {&large, 1});
    });
  }
  CHECK_THAT(error, Contains("\"fc1.weight\"") &&
                        Contains((directory / "model_epoch_2.safetensors").string()) &&
                        Contains("File too large"));
  CHECK(newest_value(directory.path()) == 1);
  CHECK(value_in(directory / "model_best.safetensors") == 1);
  CHECK(entries_of(directory.path()) == 3);
  save(checkpoints, 2);
  CHECK(newest_value(directory.path()) == 2);
}

TEST_CASE("a directory that cannot be made is named", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", "");
  CHECK_THAT(error_of([&] { const CheckpointDirectory below({.path = directory / "file/below"}); }),
             Contains("cannot create the directory " + (directory / "file/below").string()));
}

TEST_CASE("the next save removes what killed processes left", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  const auto leave = [&](const std::string& mark) {
    write_bytes(directory / ("model_epoch_1.safetensors" + mark), "half");
  };
  const std::string dead = ".tmp." + std::to_string(dead_pid()) + ".0";
  const std::string own = ".tmp." + std::to_string(getpid()) + ".0";
  const std::vector<std::string> others = {".tmp." + std::to_string(getppid()) + ".0", ".tmp.x.0",
                                           ".tmp.1", ".tmp"};
  leave(dead);
  leave(own);
  for (const std::string& mark : others) leave(mark);
  save(checkpoints, 2);
  CHECK_FALSE(fs::exists(directory / ("model_epoch_1.safetensors" + dead)));
  CHECK_FALSE(fs::exists(directory / ("model_epoch_1.safetensors" + own)));
  CHECK(entries_of(directory.path()) == 2 + others.size());
}

TEST_CASE("a background save contains the values at its start", "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  {
    ddp::CheckpointWriter writer(checkpoints);
    std::vector<float> values = {1, 1};
    const NamedBuffer tensor{"w", {2}, buffer_of(values)};
    writer.save({.name = after_epoch(1), .metadata = {}}, {&tensor, 1});
    values = {2, 2};
    writer.save({.name = after_epoch(2), .metadata = {}}, {&tensor, 1});
    values = {3, 3};
  }
  CHECK(value_in(directory / "model_epoch_1.safetensors") == 1);
  CHECK(newest_value(directory.path()) == 2);
}

TEST_CASE("only one training at a time can save to a directory", "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  CheckpointDirectory first({.path = directory.path()});
  CheckpointDirectory second({.path = directory.path()});
  {
    const ddp::CheckpointWriter writer(first);
    CHECK_THAT(error_of([&] { const ddp::CheckpointWriter another(second); }),
               Contains(directory.path().string() + ": " + ddp::describe_process(::getpid()) +
                        " is writing there: another job, or another rank of this one"));
  }
  const ddp::CheckpointWriter writer(second);
  CHECK(entries_of(directory.path()) == 0);
}

TEST_CASE("a writer reports at once that it cannot create files", "[checkpoint][writer][disk]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  fs::permissions(parent / "directory", fs::perms::owner_read | fs::perms::owner_exec);
  const bool is_root = geteuid() == 0;  // root may write everywhere
  if (is_root) fs::remove(parent / "directory");
  CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(checkpoints); }),
             Contains((parent / "directory").string()) && !Contains("probe"));
  if (is_root) {
    CheckpointDirectory read_only({.path = "/proc/self"});
    CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(read_only); }),
               Contains("/proc/self: no file can be made there: ") && !Contains("probe"));
  }
}

TEST_CASE("a background error is visible without waiting", "[checkpoint][writer]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  ddp::CheckpointWriter writer(checkpoints);
  Model model(1);
  writer.check();
  fs::remove(parent / "directory");
  writer.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  std::string error;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (error.empty() && std::chrono::steady_clock::now() < deadline) {
    error = error_of([&] { writer.check(); });
    std::this_thread::yield();
  }
  CHECK_THAT(error, Contains("model_epoch_1.safetensors"));
  writer.check();  // the error is reported only once
  writer.finish();
}

TEST_CASE("an error in the background surfaces once, at the next call", "[checkpoint][writer]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  ddp::CheckpointWriter writer(checkpoints);
  Model model(1);
  fs::remove(parent / "directory");
  writer.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  CHECK_THAT(
      error_of([&] { writer.save({.name = after_epoch(2), .metadata = {}}, model.tensors()); }),
      Contains("model_epoch_1.safetensors"));
  writer.finish();
  writer.save({.name = after_epoch(3), .metadata = {}}, model.tensors());
  CHECK_THAT(error_of([&] { writer.finish(); }), Contains("model_epoch_3.safetensors"));
  writer.finish();
}

// scripts/soak.sh does this 200 times.
TEST_CASE("whenever a process is killed, the newest checkpoint loads", "[checkpoint][kill]") {
  const TemporaryDirectory directory;
  CHECK(ddp::soak::kill_while_saving(directory.path(), 20).rounds == 20);
}
