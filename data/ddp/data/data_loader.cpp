// SPDX-License-Identifier: MIT
#include "ddp/data/data_loader.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/log.h"
#include "ddp/base/time.h"
#include "ddp/data/batch_ring.h"
#include "ddp/data/prefetcher.h"

namespace ddp {
namespace {

constexpr std::size_t kPrefetchPerWorker = 2;

void check(const DataLoaderOptions& options) {
  if (options.num_workers >= 0 && options.prefetch >= 0) return;
  throw std::invalid_argument("[data_loader] num_workers is " +
                              std::to_string(options.num_workers) + " and prefetch " +
                              std::to_string(options.prefetch) + "; neither may be below 0");
}

// One slot for the batch in the consumer's hands, and those gathered ahead. Without workers a
// second slot lets the next batch be gathered while the device still reads the last one's staging
// memory.
std::size_t slots_for(const DataLoaderOptions& options) {
  check(options);
  if (options.num_workers == 0) return options.device.is_cuda() ? 2 : 1;
  if (options.prefetch > 0) return 1 + static_cast<std::size_t>(options.prefetch);
  return 1 + kPrefetchPerWorker * static_cast<std::size_t>(options.num_workers);
}

}  // namespace

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : process_(::getpid()),
      slots_(slots_for(options)),
      dataset_size_(dataset.size()),
      ring_(std::make_unique<BatchRing>(dataset, options.dtype, options.device, slots_)),
      prefetcher_(std::make_unique<Prefetcher>(
          Prefetcher::Options{.num_threads = options.num_workers,
                              .window = static_cast<std::int64_t>(slots_)},
          [this](std::int64_t step, const std::stop_token& cancelled) {
            ring_->fill(slot(step), *plan_, step, cancelled);
          })) {}

// A fork leaves the memory, since the threads that use it are the parent's.
DataLoader::~DataLoader() {
  if (process_ == ::getpid()) return;
  static_cast<void>(prefetcher_.release());
  static_cast<void>(ring_.release());
}

void DataLoader::check_process() const {
  if (process_ == ::getpid()) return;
  throw std::logic_error("[data_loader] the loader belongs to process " + std::to_string(process_) +
                         "; this process is a fork of it and needs a loader of its own");
}

void DataLoader::start(EpochPlan plan) {
  check_process();
  prefetcher_->cancel();
  give_back();
  plan_.reset();
  statistics_ = {};
  // No later batch is larger than the first.
  if (plan.steps() > 0) ring_->reserve(static_cast<std::size_t>(plan.count(0)));
  plan_ = std::move(plan);
  step_ = 0;
  calls_at_end_ = 0;
  if (plan_->steps() == 0) warn_of_none();
  prefetcher_->start(plan_->steps());
}

std::optional<Batch> DataLoader::next(Stream stream) {
  check_process();
  give_back();
  if (step_ == plan().steps()) {
    if (++calls_at_end_ == 2) warn_of_end();
    return std::nullopt;
  }
  const auto begin = Clock::now();
  prefetcher_->wait(step_);
  statistics_.wait_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  ++statistics_.batches;
  user_ = stream;
  return ring_->acquire(slot(step_++), stream);
}

// A rank whose data run out before the others' calls on, too, so this is no error.
void DataLoader::warn_of_end() {
  if (std::exchange(has_warned_, true)) return;
  logging::warning(
      "[data_loader] next() is called again after the end of the epoch, and returns nothing until "
      "start() begins another (as it should if this rank's data end before the others')");
}

void DataLoader::warn_of_none() {
  if (plan_->rank() != 0 || std::exchange(has_warned_of_none_, true)) return;
  logging::warning(
      fmt::format("[data_loader] epoch {} has no batches: the dataset's {} samples, or what is "
                  "left of them, fill none",
                  plan_->epoch(), dataset_size_));
}

const EpochPlan& DataLoader::plan() const {
  if (!plan_) throw std::logic_error("[data_loader] start() has not been called");
  return *plan_;
}

void DataLoader::give_back() {
  if (!user_) return;
  ring_->release(slot(step_ - 1), *user_);
  prefetcher_->release(step_ - 1);
  user_.reset();
}

std::size_t DataLoader::slot(std::int64_t step) const {
  return static_cast<std::size_t>(step) % slots_;
}

}  // namespace ddp
