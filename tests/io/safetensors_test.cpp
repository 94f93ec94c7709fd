// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/error.h"
#include "ddp/io/safetensors.h"
#include "support/file_size_limit.h"
#include "support/files.h"
#include "support/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::Buffer;
using ddp::DType;
using ddp::load_safetensors;
using ddp::NamedBuffer;
using ddp::save_safetensors;
using ddp::test::bytes_of;
using ddp::test::entries_of;
using ddp::test::error_of;
using ddp::test::FileSizeLimit;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

// The bytes of a safetensors file, valid or not.
std::string file_with(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(length.data(), &size, length.size());
  return length + header + data;
}

std::string_view data_of(const NamedBuffer& tensor) {
  return {static_cast<const char*>(tensor.buffer.data), tensor.buffer.size_bytes()};
}

std::string error_of_file(const std::string& bytes) {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", bytes);
  try {
    (void)load_safetensors(directory / "file");
  } catch (const ddp::FileError& error) {
    return describe(error);
  }
  return "no error";
}

std::string error_of_header(const std::string& header, const std::string& data = "") {
  return error_of_file(file_with(header, data));
}

}  // namespace

TEST_CASE("a safetensors file has exactly the bytes of the format", "[safetensors]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "model.safetensors";
  std::vector<float> weight = {1, -2};
  std::vector<std::uint8_t> mask = {7, 8, 9};
  const NamedBuffer tensors[] = {{"w", {2, 1}, ddp::buffer_of(weight)},
                                 {"m", {3}, ddp::buffer_of(mask)}};
  save_safetensors(path, tensors, {{"step", "5"}});
  const std::string header = R"({"__metadata__":{"step":"5"},)"
                             R"("m":{"data_offsets":[8,11],"dtype":"U8","shape":[3]},)"
                             R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(bytes_of(path) == file_with(padded, std::string("\0\0\x80\x3f\0\0\0\xc0\x07\x08\x09", 11)));
  CHECK(entries_of(directory.path()) == 1);
}

TEST_CASE("safetensors of every type are read back unchanged", "[safetensors]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "model.safetensors";
  std::vector<ddp::Allocation> memory;
  std::vector<NamedBuffer> tensors;
  for (const DType dtype : ddp::kAllDTypes) {
    memory.push_back(ddp::allocate_host(15 * size_of(dtype)));
    auto* bytes = static_cast<unsigned char*>(memory.back().data());
    for (std::size_t i = 0; i < memory.back().size_bytes(); ++i) {
      bytes[i] = static_cast<unsigned char>(i * 37 + memory.size());
    }
    tensors.push_back({std::string(to_string(dtype)), {3, 5}, Buffer{bytes, 15, dtype}});
  }
  std::int64_t number = 42;
  tensors.push_back({"scalar", {}, Buffer{&number, 1, DType::kInt64}});
  tensors.push_back({"empty \"\\\n", {0, 4}, Buffer{}});
  save_safetensors(path, tensors, {{"ключ", "значение"}});

  const ddp::Safetensors loaded = load_safetensors(path);
  CHECK(loaded.metadata == ddp::SafetensorsMetadata{{"ключ", "значение"}});
  REQUIRE(loaded.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const NamedBuffer& tensor = loaded.tensors[i];
    CAPTURE(tensor.name);
    CHECK(tensor.name == tensors[i].name);
    CHECK(tensor.shape == tensors[i].shape);
    CHECK(tensor.buffer.dtype == tensors[i].buffer.dtype);
    REQUIRE(tensor.buffer.size_bytes() == tensors[i].buffer.size_bytes());
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.buffer.data) % ddp::kHostAlignment == 0);
    CHECK(data_of(tensor) == data_of(tensors[i]));
  }
}

TEST_CASE("safetensors may have no tensors, or tensors in another order", "[safetensors]") {
  const TemporaryDirectory directory;
  save_safetensors(directory / "none", {});
  CHECK(load_safetensors(directory / "none").tensors.empty());

  const std::string header = R"({"f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  write_bytes(directory / "odd", file_with(header, std::string("\x05\0\0\x80\x3f", 5)));
  const ddp::Safetensors odd = load_safetensors(directory / "odd");
  REQUIRE(odd.tensors.size() == 2);
  CHECK(odd.tensors[0].name == "b");
  CHECK(odd.tensors[0].buffer.as<std::uint8_t>()[0] == 5);
  CHECK(odd.tensors[1].buffer.as<float>()[0] == 1.0F);
}

TEST_CASE("the reason for a refusal stays one short line, whatever the file holds",
          "[safetensors]") {
  const std::string longest(5000, 'x');
  for (const std::string& header :
       {"{\"w\":\"" + longest, "{\"" + longest + "\":1,\"" + longest + "\":1}",
        "{\"" + longest + "\":1}",
        "{\"w\":{\"data_offsets\":[0,0],\"dtype\":\"" + longest + "\"}}"}) {
    const std::string error = error_of_header(header);
    CAPTURE(error);
    CHECK(error.size() < 1000);
    CHECK_THAT(error, Contains("xxx..."));
  }
  CHECK_THAT(error_of_header("{\"a\\n\\u001b\\u009b\\u202eb\":1}"), Contains("\"a    b\""));
}

TEST_CASE("a damaged safetensors file is refused with the reason", "[safetensors]") {
  const auto tensor = [](const std::string& rest) { return "{\"w\":{" + rest + "}}"; };
  CHECK_THAT(error_of_file(""), Contains("/file: it has 0 bytes, too few for a header"));
  CHECK_THAT(error_of_file(std::string(8, '\xff')),
             Contains("announces a header of 18446744073709551615 bytes, but 0 follow"));
  CHECK_THAT(error_of_header(""), Contains("not a JSON object"));
  CHECK_THAT(error_of_header("[1]"), Contains("not a JSON object"));
  CHECK_THAT(error_of_header("{\"w\":"), Contains("not JSON"));
  CHECK_THAT(error_of_header("{} x"), Contains("not JSON"));
  CHECK_THAT(error_of_header(std::string("{}\0 x", 5)), Contains("zero byte"));
  CHECK_THAT(error_of_header("{\"w\":1e999}"), Contains("not JSON"));
  CHECK_THAT(error_of_header("{\"w\":[[[[1]]]]}"), Contains("nested too deeply"));
  CHECK_THAT(error_of_header("{\"w\":1}"), Contains("tensor \"w\": is not an object"));
  CHECK_THAT(error_of_header("{\"__metadata__\":{\"k\":1}}"), Contains("\"k\" is not a string"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"F32","shape":[1])")),
             Contains("has no data_offsets"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"F8","shape":[1],"data_offsets":[0,1])"), "a"),
             Contains("dtype \"F8\" is not supported"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "a"),
             Contains("shape holds a number that is not a count"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), "a"),
             Contains("data_offsets are not two numbers"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), "a"),
             Contains("ends at 0, before it begins at 1"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,3])"), "abc"),
             Contains("float32[1] does not take 3 bytes"));
  CHECK_THAT(error_of_header(
                 tensor(R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0])")),
             Contains("does not take 0 bytes"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), "ab"),
             Contains("begins at 1 where 0 was expected"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), "ab"),
             Contains("the header describes 3 bytes of data, but the file has 2"));
  CHECK_THAT(error_of_header(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), "ab"),
             Contains("describes 1 bytes of data, but the file has 2"));
  const std::string good = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK_THAT(error_of_header("{" + good + "," + good + "}", "a"), Contains("\"w\" occurs twice"));
  CHECK_THAT(
      error_of_header(tensor(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), "a"),
      Contains("\"dtype\" occurs twice"));
  CHECK(error_of_header("{" + good + "}", "a") == "no error");
}

TEST_CASE("a header longer than the file or than 100 MB is refused", "[safetensors]") {
  CHECK_THAT(error_of_file(file_with("0123456789", "").substr(0, 10)),
             Contains("announces a header of 10 bytes, but 2 follow"));
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  const std::uint64_t length = 100'000'001;
  write_bytes(path, std::string(reinterpret_cast<const char*>(&length), sizeof(length)));
  fs::resize_file(path, sizeof(length) + length);  // sparse
  CHECK_THAT(error_of([&] { (void)load_safetensors(path); }),
             Contains("100000001 follow and 100000000 are allowed"));
}

TEST_CASE("a file of torch.save is refused with a way to convert it", "[safetensors]") {
  const std::string zip = std::string("PK\x03\x04", 4) + std::string(100, 'x');
  const std::string pickle = std::string("\x80\x02\x8a\x0a", 4) + std::string(100, 'x');
  for (const std::string& bytes : {zip, pickle}) {
    CHECK_THAT(error_of_file(bytes),
               Contains(": it is not a safetensors file, but one of torch.save") &&
                   Contains("safetensors.torch.save_file(torch.load("));
  }
  CHECK_THAT(error_of_file(std::string(100, 'x')),
             Contains(": it is cut short or not a safetensors file: it announces a header of"));
}

TEST_CASE("a file that cannot be read is named", "[safetensors]") {
  const TemporaryDirectory directory;
  CHECK_THAT(error_of([&] { (void)load_safetensors(directory / "missing"); }),
             Contains((directory / "missing").string()) && Contains("No such file"));
  CHECK_THAT(error_of([&] { (void)load_safetensors(directory.path()); }),
             Contains("is not a regular file"));
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);  // whose writer never comes
  CHECK_THAT(error_of([&] { (void)load_safetensors(directory / "pipe"); }),
             Contains("is not a regular file"));
}

TEST_CASE("a header of many tensors is read in a time that grows with their number",
          "[safetensors]") {
  constexpr std::size_t kTensors = 100'000;  // takes minutes if the time is quadratic
  std::string header = "{";
  for (std::size_t i = 0; i < kTensors; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const TemporaryDirectory directory;
  write_bytes(directory / "file", file_with(header + "}", ""));
  CHECK(load_safetensors(directory / "file").tensors.size() == kTensors);
}

TEST_CASE("tensors that safetensors cannot contain are refused before writing", "[safetensors]") {
  const TemporaryDirectory directory;
  std::vector<float> values(4);
  const Buffer buffer = ddp::buffer_of(values);
  const auto error = [&](const std::vector<NamedBuffer>& tensors) {
    return error_of([&] { save_safetensors(directory / "file", tensors); });
  };
  CHECK_THAT(error({{"w", {2, 3}, buffer}}), Contains("shape [2, 3] does not fit float32[4]"));
  CHECK_THAT(error({{"w", {-2, -2}, buffer}}), Contains("shape [-2, -2] does not fit"));
  CHECK_THAT(error({{"w", {4}, buffer}, {"w", {4}, buffer}}), Contains("two tensors are named"));
  CHECK_THAT(error({{"__metadata__", {4}, buffer}}), Contains("reserves this name"));
  CHECK_THAT(error({{"\xff", {4}, buffer}}), Contains("UTF-8"));
  const ddp::SafetensorsMetadata long_text = {{"text", std::string(100'000'000, 'x')}};
  CHECK_THAT(error_of([&] { save_safetensors(directory / "file", {}, long_text); }),
             Contains("more than the 100000000 that readers accept"));
  Buffer on_device = buffer;
  on_device.device = ddp::cuda_device(0);
  CHECK_THAT(error({{"w", {4}, on_device}}), Contains("not in CPU memory"));
  CHECK(entries_of(directory.path()) == 0);
}

TEST_CASE("a failed save leaves only the old file", "[safetensors][disk]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "model.safetensors";
  write_bytes(path, "old");
  std::vector<double> values(100000);
  const NamedBuffer tensors[] = {{"w", {100000}, ddp::buffer_of(values)}};
  std::string error;
  {
    const FileSizeLimit full(4096);
    error = error_of([&] { save_safetensors(path, tensors); });
  }
  CHECK(error == "[safetensors] tensor \"w\" is not saved: [atomic_file] " + path.string() +
                     ": cannot write: File too large");
  CHECK(bytes_of(path) == "old");
  CHECK(entries_of(directory.path()) == 1);

  save_safetensors(path, tensors);
  CHECK(load_safetensors(path).tensors[0].buffer.count == 100000);
  CHECK(entries_of(directory.path()) == 1);
}

TEST_CASE("a path that cannot be written is named with the reason", "[safetensors][disk]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", "");
  CHECK(error_of([&] { save_safetensors(directory / "no/such", {}); }) ==
        "[atomic_file] " + (directory / "no/such").string() +
            ": cannot create a temporary file beside it: No such file or directory");
  CHECK_THAT(error_of([&] { save_safetensors(directory / "file/below", {}); }),
             Contains("Not a directory"));
  CHECK_THAT(error_of([&] { save_safetensors(directory.path(), {}); }),
             Contains("not a regular file"));
  CHECK_THAT(error_of([&] { save_safetensors("/dev/null", {}); }), Contains("not a regular file"));
  CHECK_THROWS_AS(save_safetensors(directory / "no/such", {}), ddp::FileError);
}

TEST_CASE("a file behind a symbolic link is replaced, and the link stays", "[safetensors]") {
  const TemporaryDirectory directory;
  fs::create_directory(directory / "large_disk");
  write_bytes(directory / "large_disk/model", "old");
  fs::create_symlink("large_disk/model", directory / "link");
  fs::create_symlink("link", directory / "link_to_link");
  save_safetensors(directory / "link_to_link", {});
  CHECK(fs::is_symlink(directory / "link_to_link"));
  CHECK(fs::is_symlink(directory / "link"));
  CHECK(load_safetensors(directory / "large_disk/model").tensors.empty());
  CHECK(entries_of(directory / "large_disk") == 1);
}
