// SPDX-License-Identifier: MIT
#include "soak/checkpoint_kills.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "support/pipe.h"

namespace ddp::soak {
namespace {

constexpr std::size_t kElements = 1 << 18;  // 1 MiB: several writes, one or two milliseconds
constexpr int kKeep = 2;
constexpr std::int64_t kBestEvery = 3;

void require(bool condition, const std::string& complaint) {
  if (!condition) throw Error("kill_while_saving: " + complaint);
}

// The step of a checkpoint, which is in every element.
std::int64_t step_of(const Safetensors& content) {
  const std::int64_t step = std::stoll(content.metadata.at("step"));
  const auto elements = content.tensors.at(0).buffer.as<float>();
  const bool is_whole = std::all_of(elements.begin(), elements.end(), [&](float element) {
    return element == static_cast<float>(step);
  });
  require(elements.size() == kElements && is_whole, "step " + std::to_string(step) + " is torn");
  return step;
}

// The process that is killed: saves steps from `step` on, and writes each to the pipe when it is on
// disk.
[[noreturn]] void save_until_killed(const std::filesystem::path& path, std::int64_t step,
                                    int pipe) {
  CheckpointDirectory directory({.path = path, .keep = kKeep});
  CheckpointWriter writer(directory);
  std::vector<float> values(kElements);
  for (;; ++step) {
    std::fill(values.begin(), values.end(), static_cast<float>(step));
    const NamedBuffer tensor{"w", {static_cast<std::int64_t>(kElements)}, buffer_of(values)};
    writer.save({.name = {.epochs = 0, .step = step},
                 .metadata = {{"step", std::to_string(step)}},
                 .is_best = step % kBestEvery == 1},
                {&tensor, 1});
    writer.finish();
    if (write(pipe, &step, sizeof(step)) != sizeof(step)) _exit(1);
  }
}

// Returns the last step that the process reported.
std::int64_t run_and_kill(const std::filesystem::path& path, std::int64_t first_step,
                          std::chrono::microseconds life) {
  test::Pipe reports = test::make_pipe();
  const pid_t pid = fork();
  if (pid < 0) throw SystemError("fork", errno);
  if (pid == 0) {
    try {
      save_until_killed(path, first_step, reports.write_end.get());
    } catch (...) {
      _exit(1);
    }
  }
  reports.write_end.reset();
  std::int64_t reported = 0;
  const bool has_begun = read(reports.read_end.get(), &reported, sizeof(reported)) > 0;
  std::this_thread::sleep_for(life);  // ends at a random moment; waits for nothing
  kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  require(has_begun && WIFSIGNALED(status), "the process ended by itself");
  while (read(reports.read_end.get(), &reported, sizeof(reported)) > 0) {
  }
  return reported;
}

bool has_temporary(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().filename().string().find(".tmp.") != std::string::npos) return true;
  }
  return false;
}

// `next` may exist already without being listed. Older checkpoints remain listed until they are
// removed.
void require_nothing_left_over(const CheckpointDirectory& directory, const CheckpointName& next) {
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    const auto name = parse_checkpoint_name(entry.path().filename().string());
    const auto& names = directory.names();
    require(!name || *name == next || std::find(names.begin(), names.end(), *name) != names.end(),
            entry.path().filename().string() + " is left over");
  }
}

}  // namespace

CheckpointKills kill_while_saving(const std::filesystem::path& path, int rounds) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> microseconds(0, 15'000);
  CheckpointKills kills;
  std::int64_t newest = 0;
  for (; kills.rounds < rounds; ++kills.rounds) {
    const std::int64_t reported =
        run_and_kill(path, newest + 1, std::chrono::microseconds(microseconds(random)));
    CheckpointDirectory directory({.path = path, .keep = kKeep});
    const CheckpointName listed = directory.names().at(0);
    const auto loaded = directory.load_newest();
    require(loaded && directory.names().at(0) == listed, "the newest one was passed over");
    newest = step_of(loaded->content);
    require(newest == listed.step && newest >= reported, "the newest one is too old");
    const std::int64_t best = step_of(load_checkpoint(path / "model_best.safetensors"));
    require(best % kBestEvery == 1 && best + kBestEvery > newest, "the best one is not the best");
    const CheckpointName next{.epochs = 0, .step = newest + 1};
    require_nothing_left_over(directory, next);
    if (std::filesystem::exists(path / to_string(next))) {
      ++kills.before_list;
    } else if (has_temporary(path)) {
      ++kills.in_file;
    }
  }
  return kills;
}

}  // namespace ddp::soak
