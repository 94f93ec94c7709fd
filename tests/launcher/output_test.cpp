// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/net/poll_until.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/log_mux.h"
#include "launcher/output/sink.h"
#include "support/files.h"
#include "support/in_child.h"

using namespace ddp::launcher;
using ddp::test::check_in_child;
using ddp::test::Verdict;
using Strings = std::vector<std::string>;

namespace {

struct Pipe {
  ddp::FileDescriptor read_end;
  ddp::FileDescriptor write_end;
};

// A pipe whose reads do not block but whose writes do: a Sink must not rely on the mode of its
// descriptor.
Pipe make_pipe() {
  int fds[2];
  if (::pipe(fds) != 0) throw ddp::SystemError("pipe", errno);
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return {ddp::FileDescriptor(fds[0]), ddp::FileDescriptor(fds[1])};
}

std::string read_now(const Pipe& pipe) {
  std::string text(65536, '\0');
  const ssize_t size = ::read(pipe.read_end.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

void write_now(const Pipe& pipe, const std::string& text) {
  const ssize_t size = ::write(pipe.write_end.get(), text.data(), text.size());
  if (size != static_cast<ssize_t>(text.size())) throw ddp::SystemError("write", errno);
}

std::vector<std::pair<std::string, LineEnd>> split(LineSplitter& splitter, const Strings& chunks) {
  std::vector<std::pair<std::string, LineEnd>> lines;
  for (const std::string& chunk : chunks) {
    splitter.feed(chunk,
                  [&](std::string_view line, LineEnd end) { lines.emplace_back(line, end); });
  }
  return lines;
}

// A Sink, and its output so far.
struct SinkProbe {
  Pipe pipe = make_pipe();
  Sink sink{pipe.write_end.get()};

  std::string text() {
    sink.flush();
    return read_now(pipe);
  }
};

// The pipes of two workers, multiplexed onto a console that consists of two pipes.
struct MuxProbe {
  struct Options {
    bool shows_rank1 = true;
    std::string host{};
    std::string log_file{};  // of rank 1's stderr
  };

  MuxProbe() : MuxProbe(Options{}) {}
  explicit MuxProbe(const Options& options) : mux(console, options.host) {
    for (int rank = 0; rank < 2; ++rank) {
      for (const Channel channel : {Channel::kOut, Channel::kErr}) {
        const bool has_file = rank == 1 && channel == Channel::kErr;
        Pipe pipe = make_pipe();
        mux.add({.rank = rank,
                 .channel = channel,
                 .pipe = std::move(pipe.read_end),
                 .is_shown = rank == 0 || options.shows_rank1,
                 .log_file = has_file ? options.log_file : ""});
        writers.push_back(std::move(pipe));
      }
    }
  }

  void write(int rank, Channel channel, const std::string& text) {
    write_now(writers.at(static_cast<std::size_t>(2 * rank + static_cast<int>(channel))), text);
    mux.drain(rank);
    console.flush();
  }
  std::string out() const { return read_now(out_pipe); }
  std::string err() const { return read_now(err_pipe); }

  Pipe out_pipe = make_pipe();
  Pipe err_pipe = make_pipe();
  Console console{out_pipe.write_end.get(), err_pipe.write_end.get()};
  LogMux mux;
  std::vector<Pipe> writers;
};

}  // namespace

TEST_CASE("lines are written whole, however their bytes arrive", "[lines]") {
  LineSplitter splitter;
  const auto lines = split(splitter, {"a", "b\nc", "\n\nd\r", "e\r\nf"});
  const std::vector<std::pair<std::string, LineEnd>> expected = {
      {"ab\n", LineEnd::kNewline},       {"c\n", LineEnd::kNewline},   {"\n", LineEnd::kNewline},
      {"d\r", LineEnd::kCarriageReturn}, {"e\r\n", LineEnd::kNewline},
  };
  CHECK(lines == expected);
  CHECK(splitter.has_rest());
  std::string rest;
  splitter.flush([&](std::string_view line, LineEnd end) {
    rest = line;
    CHECK(end == LineEnd::kNone);
  });
  CHECK(rest == "f");
  CHECK_FALSE(splitter.has_rest());
}

TEST_CASE("a line without end does not grow without bound", "[lines]") {
  LineSplitter splitter;
  const auto lines = split(splitter, {std::string(LineSplitter::kLongestLine, 'x'), "y"});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].first.size() == LineSplitter::kLongestLine + 1);
  CHECK(lines[0].second == LineEnd::kNone);
}

TEST_CASE("a stream of whole blocks is distinguished from a flushed one", "[lines]") {
  LineSplitter splitter;
  split(splitter, {"some lines\n", std::string(4000, 'x') + "\n" + std::string(95, 'x')});
  CHECK(splitter.ends_on_block());
  split(splitter, {"x"});
  CHECK_FALSE(splitter.ends_on_block());
}

TEST_CASE("a sink keeps lines of different streams apart", "[sink]") {
  SinkProbe probe;
  SECTION("whole lines, with their prefixes") {
    probe.sink.put(0, "", "a\n", LineEnd::kNewline);
    probe.sink.put(2, "rank 1| ", "b\n", LineEnd::kNewline);
    CHECK(probe.text() == "a\nrank 1| b\n");
  }
  SECTION("an open line goes on if nobody came between") {
    probe.sink.put(2, "rank 1| ", "half", LineEnd::kNone);
    probe.sink.put(2, "rank 1| ", " done\n", LineEnd::kNewline);
    CHECK(probe.text() == "rank 1| half done\n");
  }
  SECTION("an open line is ended before another stream's") {
    probe.sink.put(2, "rank 1| ", "half", LineEnd::kNone);
    probe.sink.put(0, "", "a\n", LineEnd::kNewline);
    probe.sink.put(2, "rank 1| ", "rest\n", LineEnd::kNewline);
    CHECK(probe.text() == "rank 1| half\na\nrank 1| rest\n");
  }
  SECTION("a progress bar redraws itself and is not written into") {
    probe.sink.put(0, "", "10%\r", LineEnd::kCarriageReturn);
    probe.sink.put(0, "", "20%\r", LineEnd::kCarriageReturn);
    probe.sink.put(2, "rank 1| ", "b\n", LineEnd::kNewline);
    CHECK(probe.text() == "10%\r20%\r\nrank 1| b\n");
  }
  SECTION("a bar that begins with a carriage return leaves no empty lines") {
    probe.sink.put(2, "rank 1| ", "\r", LineEnd::kCarriageReturn);
    probe.sink.put(2, "rank 1| ", "10%", LineEnd::kNone);
    probe.sink.put(0, "", "\r", LineEnd::kCarriageReturn);
    probe.sink.put(2, "rank 1| ", "\r", LineEnd::kCarriageReturn);
    probe.sink.put(2, "rank 1| ", "20%", LineEnd::kNone);
    CHECK(probe.text() == "rank 1| 10%\rrank 1| 20%");
  }
}

TEST_CASE("the only rank's bytes are shown as they are", "[sink]") {
  SinkProbe probe;
  for (const char* line : {"a\n", "\r", "b\r", "\r", "\n", "\r", "c\n"}) {
    const bool is_line = line[std::string_view(line).size() - 1] == '\n';
    probe.sink.put(0, "", line, is_line ? LineEnd::kNewline : LineEnd::kCarriageReturn);
  }
  CHECK(probe.text() == "a\n\rb\r\r\n\rc\n");
}

TEST_CASE("a sink whose reader hangs queues without blocking", "[sink]") {
  SinkProbe probe;
  std::size_t put = 0;
  while (!probe.sink.is_congested()) {
    probe.sink.put(0, "", std::string(999, 'x') + "\n", LineEnd::kNewline);
    probe.sink.flush();
    REQUIRE(++put < 10000);
  }
  CHECK(probe.sink.is_pending());
  std::size_t got = 0;
  while (got < put * 1000) {
    const std::size_t more = probe.text().size();
    REQUIRE(more > 0);
    got += more;
  }
  CHECK(got == put * 1000);
  CHECK_FALSE(probe.sink.is_pending());
}

// A terminal polls writable when it has room for a byte, but write() waits until all has been read.
TEST_CASE("a sink on a terminal that nobody reads queues without blocking", "[sink][terminal]") {
  check_in_child([] {
    ::alarm(25);  // ends this process if it blocks
    int master = -1;
    int slave = -1;
    if (::openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return Verdict::kImpossible;
    Sink sink(slave);
    const std::string line = std::string(99, 'a') + "\n";
    constexpr int kLines = 1000;
    for (int i = 0; i < kLines; ++i) {
      sink.put(0, "", line, LineEnd::kNewline);
      sink.flush();
    }
    const bool was_pending = sink.is_pending();
    std::string shown;
    std::array<char, 4096> chunk;
    while (shown.size() < kLines * (line.size() + 1)) {  // a terminal shows "\n" as "\r\n"
      sink.flush();
      pollfd entry{master, POLLIN, 0};
      if (::poll(&entry, 1, 5) <= 0) continue;
      const ssize_t size = ::read(master, chunk.data(), chunk.size());
      shown.append(chunk.data(), static_cast<std::size_t>(size));
    }
    // other processes share it
    const bool keeps_mode = (::fcntl(slave, F_GETFL) & O_NONBLOCK) == 0;
    const bool is_whole = std::ranges::count(shown, 'a') == kLines * 99;
    return was_pending && is_whole && keeps_mode ? Verdict::kGood : Verdict::kBad;
  });
}

TEST_CASE("rank 0's lines are shown unchanged, others' with their rank as prefix", "[log-mux]") {
  MuxProbe probe;
  probe.write(0, Channel::kOut, "a\n");
  probe.write(1, Channel::kOut, "b\nc\n");
  probe.write(1, Channel::kErr, "d\n");
  CHECK(probe.out() == "a\nrank 1| b\nrank 1| c\n");
  CHECK(probe.err() == "rank 1| d\n");
}

TEST_CASE("with several hosts, the prefix names this one", "[log-mux]") {
  MuxProbe probe({.host = "node-b"});
  probe.write(0, Channel::kOut, "a\n");
  probe.write(1, Channel::kOut, "b\n");
  CHECK(probe.out() == "a\nnode-b rank 1| b\n");
}

TEST_CASE("a line that ends in CR LF has one prefix, even if it comes in two parts", "[log-mux]") {
  MuxProbe probe;
  probe.write(1, Channel::kErr, "abc\r");
  CHECK(probe.err() == "rank 1| abc\r");
  probe.write(1, Channel::kErr, "\nnext\n");
  CHECK(probe.err() == "\nrank 1| next\n");
  CHECK(probe.mux.stderr_tail(1).lines == Strings{"abc", "next"});
}

TEST_CASE("the output of a rank that is not shown is still read", "[log-mux]") {
  MuxProbe probe({.shows_rank1 = false});
  for (int i = 0; i < 100; ++i) probe.write(1, Channel::kOut, std::string(4000, 'x') + "\n");
  probe.write(1, Channel::kErr, "why\n");
  CHECK(probe.out().empty());
  CHECK(probe.err().empty());
  const StderrTail tail = probe.mux.stderr_tail(1);
  CHECK(tail.lines == Strings{"why"});
  CHECK_FALSE(tail.is_in_view);
}

TEST_CASE("a stderr line counts as in view until twelve lines have followed", "[log-mux]") {
  MuxProbe probe;
  probe.write(1, Channel::kErr, "why\n");
  CHECK(probe.mux.stderr_tail(1).is_in_view);
  for (int i = 0; i < 11; ++i) probe.write(0, Channel::kErr, "noise\n");
  CHECK(probe.mux.stderr_tail(1).is_in_view);
  probe.write(0, Channel::kErr, "noise\n");
  CHECK_FALSE(probe.mux.stderr_tail(1).is_in_view);
  CHECK(probe.mux.stderr_tail(1).lines == Strings{"why"});
}

TEST_CASE("the tail of stderr is what a terminal would show", "[log-mux]") {
  MuxProbe probe;
  SECTION("the last ten lines that are not empty") {
    for (int i = 1; i <= 12; ++i) probe.write(1, Channel::kErr, std::to_string(i) + "\n\n");
    CHECK(probe.mux.stderr_tail(1).lines ==
          Strings{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12"});
    CHECK(probe.mux.stderr_tail(1).earlier == Strings{"1", "2"});
  }
  SECTION("a progress bar is one line, however it is drawn") {
    probe.write(1, Channel::kErr, "begin\n");
    for (int i = 0; i < 50; ++i) probe.write(1, Channel::kErr, "\r" + std::to_string(i) + "%");
    for (int i = 50; i <= 100; ++i) probe.write(1, Channel::kErr, std::to_string(i) + "%\r");
    probe.write(1, Channel::kErr, "\nend\n");
    CHECK(probe.mux.stderr_tail(1).lines == Strings{"begin", "100%", "end"});
  }
  SECTION("a line that came in parts is one") {
    probe.write(1, Channel::kErr, "half");
    probe.mux.finish();
    CHECK(probe.mux.stderr_tail(1).lines == Strings{"half"});
  }
}

TEST_CASE("a log file has every byte, shown or not", "[log-mux]") {
  const ddp::test::TemporaryDirectory folder;
  const std::string path = (folder / "stderr.log").string();
  MuxProbe probe({.shows_rank1 = GENERATE(true, false), .log_file = path});
  const std::string text = "a\nb\r\nc\r10%\r\n" + std::string("\0\xff", 2) + "no end";
  probe.write(1, Channel::kErr, text);
  probe.write(1, Channel::kOut, "another stream\n");
  CHECK(ddp::test::bytes_of(path) == text);
}

TEST_CASE("a log file that cannot be written is reported once", "[log-mux]") {
  const std::string path = GENERATE("/dev/full", "/no/such/folder/stderr.log");
  MuxProbe probe({.log_file = path});
  for (int i = 0; i < 3; ++i) probe.write(1, Channel::kErr, "x\n");
  const std::string text = probe.err();
  CHECK(text.find("ddp-launch: cannot write " + path + ": ") != std::string::npos);
  CHECK(text.find("ddp-launch: ") == text.rfind("ddp-launch: "));
  CHECK(std::ranges::count(text, 'x') == 3);
}

TEST_CASE("a partial line is shown after a short wait", "[log-mux]") {
  MuxProbe probe;
  probe.write(0, Channel::kOut, "name? ");
  CHECK(probe.out().empty());
  REQUIRE(probe.mux.next_flush());
  CHECK(probe.mux.next_flush()->remaining() <= LogMux::kPartialLineDelay);
  probe.write(0, Channel::kOut, "yes\n");
  CHECK(probe.out() == "name? yes\n");
  CHECK_FALSE(probe.mux.next_flush());
}

// As `python -u` writes it: the text, and the newline in a call of its own.
TEST_CASE("a newline that comes after its line was cut makes no line of its own", "[log-mux]") {
  MuxProbe probe;
  const auto write_part = [&](int rank, const std::string& text) {
    probe.write(rank, Channel::kOut, text);
    ddp::poll_until({}, probe.mux.next_flush());  // as the launcher does
    probe.mux.flush_partial_lines();
    probe.console.flush();
  };
  write_part(0, "abc");
  write_part(1, "def");
  probe.write(0, Channel::kOut, "\n");
  probe.write(1, Channel::kOut, "\n\nnext\n");
  CHECK(probe.out() == "abc\nrank 1| def\nrank 1| \nrank 1| next\n");
}

TEST_CASE("the rest of a stream is shown at the end", "[log-mux]") {
  MuxProbe probe;
  probe.write(0, Channel::kOut, "no end");
  probe.mux.finish();
  probe.console.flush();
  CHECK(probe.out() == "no end");
}

TEST_CASE("stdout and stderr in one file do not break each other's lines", "[console]") {
  Pipe pipe = make_pipe();
  Console console(pipe.write_end.get(), pipe.write_end.get());
  console.sink(Channel::kOut).put(0, "", "10%\r", LineEnd::kCarriageReturn);
  console.say("over");
  console.flush();
  CHECK(read_now(pipe) == "10%\r\nddp-launch: over\n");
}
