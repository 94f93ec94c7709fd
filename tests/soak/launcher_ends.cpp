// SPDX-License-Identifier: MIT
#include "soak/launcher_ends.h"

#include <signal.h>

#include <chrono>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "support/child_process.h"

namespace ddp::soak {
namespace {

using namespace std::chrono_literals;
using test::ChildProcess;

constexpr int kRanks = 3;
constexpr Timeout kLong = 30s;

// Shell text for a worker with an orphan, a child with a session of its own and an orphan there,
// and a child.
const std::string kFamily =
    "say='echo pid=$$. >&2; exec sleep 1000'; (sh -c \"$say\" &); "
    "setsid sh -c \"(sh -c '$say' &); $say\" & sh -c \"$say\" & "
    "echo rank$RANK=$$. pid=$$. agent=$PPID. port=$MASTER_PORT. >&2; "
    "exec " DDP_COLLECTIVE_WORKER_PATH " loop";
constexpr std::size_t kFamilySize = 5;

// The numbers after every "name=".
std::vector<int> numbers(const std::string& text, const std::string& name) {
  std::vector<int> found;
  const std::regex pattern(name + "=([0-9]+)\\.");
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    found.push_back(std::stoi((*at)[1]));
  }
  return found;
}

bool is_running(const ChildProcess& launcher) {
  for (const char* rank : {"rank 0 ready", "rank 1 ready", "rank 2 ready"}) {
    if (launcher.out().find(rank) == std::string::npos) return false;
  }
  return numbers(launcher.err(), "pid").size() == kRanks * kFamilySize;
}

pid_t target_of(Blow blow, const ChildProcess& launcher, int round) {
  std::mt19937 random(static_cast<unsigned>(round));
  switch (blow) {
    case Blow::kRankKilled:
      return numbers(launcher.err(), "rank" + std::to_string(random() % kRanks)).at(0);
    case Blow::kAgentKilled:
      return numbers(launcher.err(), "agent").at(0);
    default:
      return launcher.pid();
  }
}

bool can_listen(int port) {
  try {
    static_cast<void>(Socket::listen({"127.0.0.1", static_cast<std::uint16_t>(port)}));
    return true;
  } catch (const SystemError&) {
    return false;
  }
}

}  // namespace

LauncherEnd launcher_end(Blow blow, int round) {
  const std::string script = (round % 20 == 19 ? "trap '' TERM; " : "") + kFamily;
  ChildProcess launcher({DDP_LAUNCH_PATH, "-n", std::to_string(kRanks), "--show", "all", "--",
                         "/bin/sh", "-c", script});
  launcher.wait_until(is_running);
  std::vector<pid_t> pids = numbers(launcher.err(), "pid");
  pids.push_back(numbers(launcher.err(), "agent").at(0));

  LauncherEnd end{.pids = static_cast<int>(pids.size())};
  const auto begin = Clock::now();
  ::kill(target_of(blow, launcher, round), blow == Blow::kCtrlC ? SIGINT : SIGKILL);
  const int exit_code = launcher.wait(kLong);
  for (const pid_t pid : pids) {
    if (!test::wait_until_gone(pid, kLong)) ++end.pids_left;
  }
  end.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  end.is_port_stuck = !can_listen(numbers(launcher.err(), "port").at(0));
  if (exit_code != 128 + (blow == Blow::kCtrlC ? SIGINT : SIGKILL)) {
    throw std::runtime_error("unexpected exit code " + std::to_string(exit_code) +
                             "; stderr: " + launcher.err());
  }
  return end;
}

}  // namespace ddp::soak
