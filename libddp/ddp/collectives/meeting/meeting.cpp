// SPDX-License-Identifier: MIT
#include "ddp/collectives/meeting/meeting.h"

#include <exception>

#include "ddp/base/error.h"

namespace ddp {
namespace {

// The meeting counts as pending while this object lives.
class Meeting {
 public:
  Meeting(FlightRecorder& recorder, const std::string& name)
      : recorder_(recorder),
        inside_(recorder),
        number_(recorder.joined(recorder.labels().add(name))) {}
  ~Meeting() { recorder_.done(number_, Clock::now()); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

 private:
  FlightRecorder& recorder_;
  FlightRecorder::Inside inside_;
  std::uint64_t number_;
};

}  // namespace

void meet(FlightRecorder& meetings, const std::string& name, const std::function<void()>& wait) {
  const Meeting meeting(meetings, name);
  try {
    wait();
  } catch (const TimeoutError&) {
    const std::string diagnosis = meetings.hang().diagnosis();
    if (diagnosis.empty()) throw;
    std::throw_with_nested(TimeoutError("[" + name + "] timed out: " + diagnosis));
  }
}

}  // namespace ddp
