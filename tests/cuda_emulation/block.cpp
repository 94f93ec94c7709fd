// SPDX-License-Identifier: MIT
#include "cuda_emulation/block.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "cuda_emulation/fiber.h"

namespace ddp::emulation {

constinit thread_local Index thread_index, block_index, block_size, grid_size;

namespace {

[[noreturn]] void refuse(unsigned threads, unsigned all, const char* what) {
  std::fprintf(stderr, "[cuda emulation] block %u of %u: %u of %u threads %s\n", block_index.x,
               grid_size.x, threads, all, what);
  std::abort();
}

enum class State { kRuns, kInWarp, kAtBarrier, kEnded };

struct Thread {
  State state = State::kEnded;
  Fiber* fiber = nullptr;  // set while the thread waits
  // The values that the thread gives to its warp. There are two, because a lane may reach the next
  // exchange before another lane has read this one's value, but cannot reach the one after that.
  std::array<std::uint64_t, 2> given{};
  unsigned exchanges = 0;
};

class Block {
 public:
  void run(unsigned size, const std::function<void()>& body);
  // Called by emulated threads.
  void wait(State where);
  Thread& thread(unsigned index) { return threads_[index]; }
  [[nodiscard]] unsigned size() const { return size_; }

 private:
  static void enter_fiber();
  void run_fiber();
  Fiber& idle_fiber();
  Fiber* next_that_goes_on() { return on_ < on_end_ ? threads_[on_++].fiber : nullptr; }
  void resume(Fiber& fiber);
  void begin(unsigned first, unsigned end);
  void continue_all(unsigned first, unsigned end);
  void finish_exchanges(unsigned first, unsigned end);
  [[nodiscard]] unsigned count(State state, unsigned first, unsigned end) const;
  template <class Step>
  void for_each_warp(Step step);

  const std::function<void()>* body_ = nullptr;
  unsigned size_ = 0;
  unsigned next_ = 0, end_ = 0;   // the threads of a warp that have not started
  unsigned on_ = 0, on_end_ = 0;  // the threads of a warp that may continue
  bool is_descending_ = false;
  std::array<Thread, kMaxThreads> threads_;
  std::deque<Fiber> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* running_ = nullptr;
};

Block& this_block() {
  static thread_local const auto block = std::make_unique<Block>();
  return *block;
}

void Block::enter_fiber() { this_block().run_fiber(); }

void Block::run_fiber() {
  for (;;) {
    while (next_ < end_) {
      const unsigned index = next_++;
      thread_index.x = index;
      threads_[index].state = State::kRuns;
      threads_[index].exchanges = 0;
      (*body_)();
      threads_[thread_index.x].state = State::kEnded;
    }
    idle_.push_back(running_);
    running_->stop();
  }
}

Fiber& Block::idle_fiber() {
  if (idle_.empty()) return fibers_.emplace_back(enter_fiber);
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

void Block::resume(Fiber& fiber) {
  running_ = &fiber;
  fiber.resume();
}

void Block::wait(State where) {
  const unsigned index = thread_index.x;
  Thread& self = threads_[index];
  self.state = where;
  self.fiber = running_;
  if (Fiber* const next = next_that_goes_on()) {
    running_ = next;
    self.fiber->make_way_for(*next);
  } else {
    running_->stop();
  }
  thread_index.x = index;
  self.state = State::kRuns;
}

unsigned Block::count(State state, unsigned first, unsigned end) const {
  return static_cast<unsigned>(
      std::count_if(threads_.begin() + first, threads_.begin() + end,
                    [&](const Thread& thread) { return thread.state == state; }));
}

void Block::begin(unsigned first, unsigned end) {
  next_ = first;
  end_ = end;
  while (next_ < end_) resume(idle_fiber());
}

void Block::continue_all(unsigned first, unsigned end) {
  on_ = first;
  on_end_ = end;
  while (Fiber* const next = next_that_goes_on()) resume(*next);
}

void Block::finish_exchanges(unsigned first, unsigned end) {
  while (const unsigned waiting = count(State::kInWarp, first, end)) {
    if (waiting != end - first) {
      refuse(waiting, end - first, "of a warp exchange values, and the others do not");
    }
    continue_all(first, end);
  }
}

template <class Step>
void Block::for_each_warp(Step step) {
  const unsigned warps = (size_ + kWarp - 1) / kWarp;
  for (unsigned i = 0; i < warps; ++i) {
    const unsigned first = (is_descending_ ? warps - 1 - i : i) * kWarp;
    const unsigned end = std::min(first + kWarp, size_);
    step(first, end);
    finish_exchanges(first, end);
  }
}

void Block::run(unsigned size, const std::function<void()>& body) {
  body_ = &body;
  size_ = size;
  for_each_warp([this](unsigned first, unsigned end) { begin(first, end); });
  while (const unsigned waiting = count(State::kAtBarrier, 0, size_)) {
    if (waiting != size_)
      refuse(waiting, size_, "wait in __syncthreads(), and the others have ended");
    is_descending_ = !is_descending_;
    for_each_warp([this](unsigned first, unsigned end) { continue_all(first, end); });
  }
}

}  // namespace

void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
  grid_size = {blocks, 1, 1};
  block_size = {threads, 1, 1};
  for (unsigned b = 0; b < blocks; ++b) {
    block_index.x = b;
    this_block().run(threads, thread);
  }
}

void sync_threads() { this_block().wait(State::kAtBarrier); }

std::uint64_t exchange(unsigned lanes, unsigned from, std::uint64_t value) {
  Block& block = this_block();
  const unsigned index = thread_index.x, peer = index / kWarp * kWarp + from;
  if (lanes != 0xffffffffU || peer >= block.size()) {
    refuse(1, block.size(), "exchanges values with a part of a warp, which is not emulated");
  }
  Thread& self = block.thread(index);
  const unsigned turn = self.exchanges++ % 2;
  self.given[turn] = value;
  block.wait(State::kInWarp);
  return block.thread(peer).given[turn];
}

}  // namespace ddp::emulation
