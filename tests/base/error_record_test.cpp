// SPDX-License-Identifier: MIT
#include "ddp/base/error_record.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/worker_slot.h"
#include "support/files.h"
#include "support/scoped_variable.h"

using namespace ddp;
using test::bytes_of;
using test::ScopedVariable;
using test::TemporaryDirectory;

namespace {

std::string text_in(const std::string& json) {
  return nlohmann::json::parse(json)["message"]["message"].get<std::string>();
}

// An error that a caller has nested around a PeerError.
std::exception_ptr nested_peer_error() {
  try {
    try {
      throw PeerError("rank 1 died");
    } catch (...) {
      std::throw_with_nested(std::runtime_error("epoch 3"));
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

TEST_CASE("a record has torchrun's format and our own fields", "[error_record]") {
  CHECK(to_json({.message = "why"}, 1700000000) ==
        "{\"message\":{\"message\":\"why\",\"extraInfo\":{\"py_callstack\":\"why\","
        "\"timestamp\":\"1700000000\",\"caused_by_peer\":\"false\"}}}\n");
  CHECK(to_json({"why", 457, true}, 1) ==
        "{\"message\":{\"message\":\"why\",\"extraInfo\":{\"py_callstack\":\"why\","
        "\"timestamp\":\"1\",\"step\":\"457\",\"caused_by_peer\":\"true\"}}}\n");
}

TEST_CASE("a record stays one line of JSON whatever its text", "[error_record]") {
  const auto decoded = [](const std::string& text) {
    const std::string json = to_json({text}, 0);
    CHECK(json.find('\n') == json.size() - 1);
    return text_in(json);
  };
  const std::string any = "a \"b\" \\ c\n\td\x01\x7f größe € 𝄞";
  CHECK(decoded(any) == any);
  CHECK(decoded("latin \xe4.") == "latin \ufffd.");
  CHECK(decoded("cut \xe2\x82") == "cut \ufffd");
  CHECK(decoded("overlong \xc0\xaf") == "overlong \ufffd\ufffd");
  CHECK_THAT(decoded("surrogate \xed\xa0\x80"), Catch::StartsWith("surrogate \ufffd"));
  CHECK_THAT(decoded("too far \xf4\x90\x80\x80 \xff"), Catch::EndsWith(" \ufffd"));
}

// ddp-launch reads at most 1 MiB.
TEST_CASE("a record of a long text is cut between two characters", "[error_record]") {
  std::string long_text;
  while (long_text.size() < (2 << 20)) long_text += "€";
  const std::string cut = text_in(to_json({.message = long_text, .hang = long_text}, 0));
  CHECK(cut.size() <= (64 << 10) + 3);
  CHECK(cut.ends_with("€..."));
  const std::string escaped(2 << 20, '\x01');  // as six bytes each
  CHECK(to_json({.message = escaped, .hang = escaped}, 0).size() < (1 << 20));
}

TEST_CASE("a peer's error is recognised inside nested errors", "[error_record]") {
  CHECK(is_caused_by_peer(std::make_exception_ptr(PeerError("gone"))));
  CHECK(is_caused_by_peer(nested_peer_error()));
  CHECK_FALSE(is_caused_by_peer(std::make_exception_ptr(TimeoutError("late"))));
  CHECK_FALSE(is_caused_by_peer(std::make_exception_ptr(1)));
  CHECK_FALSE(is_caused_by_peer(nullptr));
}

TEST_CASE("the first error record of a process is kept", "[error_record]") {
  const TemporaryDirectory folder;
  const ErrorFile file((folder / "error.json").string());
  file.keep({"the cause"});
  file.keep({"a consequence"});
  CHECK(text_in(bytes_of(folder / "error.json")) == "the cause");
  CHECK(test::entries_of(folder.path()) == 1);
  file.clear();
  CHECK(test::entries_of(folder.path()) == 0);
}

TEST_CASE("a program can record what it catches", "[error_record]") {
  const TemporaryDirectory folder;
  const ScopedVariable variable("TORCHELASTIC_ERROR_FILE", (folder / "error.json").string());
  try {
    std::rethrow_exception(nested_peer_error());
  } catch (const std::exception& error) {
    record_error(error);
  }
  const std::string json = bytes_of(folder / "error.json");
  CHECK(text_in(json) == "epoch 3: rank 1 died");
  CHECK(json.find("\"caused_by_peer\":\"true\"") != std::string::npos);
}

TEST_CASE("a record that cannot be written causes no error, and makes no folder",
          "[error_record]") {
  const TemporaryDirectory folder;
  const std::string nowhere = (folder / "missing" / "error.json").string();
  ErrorFile(nowhere).keep({"no place"});
  ErrorFile(nowhere).clear();
  const ScopedVariable variable("TORCHELASTIC_ERROR_FILE", nowhere);
  record_error(std::runtime_error("no place, either"));
  ErrorFile().keep({"nobody asks"});
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a record that fits on no disk begins in the worker's slot", "[error_record]") {
  const TemporaryDirectory folder;
  const std::string slots = (folder / "slots").string();
  test::write_bytes(slots, std::string(2 * WorkerSlot::kBytes, '\0'));
  const ScopedVariable path("DDP_WORKER_SLOTS", slots), rank("LOCAL_RANK", "1");
  const FileDescriptor file(::open(slots.c_str(), O_RDONLY | O_CLOEXEC));
  const auto slot = [&](int local_rank) { return WorkerSlot::read(file.get(), local_rank).error; };
  const ErrorFile nowhere("/no/such/folder/error.json");
  CHECK_FALSE(slot(1));
  nowhere.keep({.message = "first " + std::string(5000, 'x'), .caused_by_peer = true});
  nowhere.keep({.message = "second"});
  REQUIRE(slot(1));
  CHECK(slot(1)->message.starts_with("first xxx"));
  CHECK(slot(1)->message.size() < WorkerSlot::kBytes);
  CHECK(slot(1)->caused_by_peer);
  CHECK_FALSE(slot(0));
  nowhere.clear();
  CHECK_FALSE(slot(1));
  ErrorFile().clear();
  ErrorFile().keep({.message = "none of the process's own"});
  CHECK_FALSE(slot(1));
  ErrorFile("").keep({.message = "third, without a file"});
  CHECK(slot(1)->message == "third, without a file");
  CHECK_FALSE(slot(1)->caused_by_peer);
}
