// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "ddp/base/stream.h"
#include "ddp/data/batch.h"
#include "ddp/data/dataset.h"
#include "ddp/samplers/epoch_plan.h"

namespace ddp {

class BatchRing;
class Prefetcher;

struct DataLoaderOptions {
  DType dtype = DType::kFloat32;  // dtype of the inputs
  Device device = kCpuDevice;     // where batches are delivered
  int num_workers = 0;            // threads that gather batches; 0: next() gathers them
  int prefetch = 0;  // batches gathered ahead of the current one; 0: two for each worker
};

// Statistics of the current epoch.
struct DataLoaderStatistics {
  std::int64_t batches = 0;  // delivered by next()
  double wait_seconds = 0;   // time that next() took, waiting for a worker or gathering
};

// Delivers the batches of an epoch in the order of its plan:
//
//   loader.start(sampler.next_epoch());
//   while (const auto batch = loader.next(stream)) train(*batch);
//
// Batches and their order depend only on the plan, not on num_workers or prefetch. Batches use a
// few buffers in turn, which keep their addresses until a plan needs larger ones; nothing is
// allocated between start() and the end of the epoch. On CUDA, batches are copied on the loader's
// own stream while the consumer works on earlier ones.
//
// Used by one thread at a time. Workers block the signals that the thread blocks that makes the
// loader. Destroying the loader, or calling start() inside an epoch, waits for the calls of
// Dataset::read() that are running; a loader that is destroyed warns once if that takes longer than
// a second, with the error that next() has thrown, which the program may report only afterwards. A
// fork of the process has no workers: it can destroy the loader, and everything else is a
// std::logic_error there.
class DataLoader {
 public:
  // The dataset must outlive the loader. Throws std::invalid_argument if an option is negative,
  // SystemError if a worker cannot start.
  DataLoader(const Dataset& dataset, const DataLoaderOptions& options);
  DataLoader(const Dataset&&, const DataLoaderOptions&) = delete;
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // Begins an epoch, or the rest of one; the rest of the previous plan is dropped. If the plan has
  // no step, rank 0 warns of it, once.
  void start(EpochPlan plan);

  // The next batch, or nothing after the last one. It is ready for work on `stream`, which must
  // exist until the next call of next() or start(). It stays valid until the next call, and intact
  // for work enqueued on `stream` before that.
  //
  // Rethrows what the dataset threw for this batch, at each call until start(); std::logic_error
  // before start(). After the end of the epoch it returns nothing until start(); a warning says so
  // once, since a loop that forgets start() would train nothing.
  [[nodiscard]] std::optional<Batch> next(Stream stream = {});

  // The plan of the current epoch. std::logic_error before start().
  [[nodiscard]] const EpochPlan& plan() const;

  // The job's position after the batch that next() delivered last; batches gathered ahead do not
  // count. Checkpoints store it, and Sampler::seek() takes it. std::logic_error before start().
  [[nodiscard]] DataPosition position() const { return plan().position(step_); }

  [[nodiscard]] const DataLoaderStatistics& statistics() const { return statistics_; }

 private:
  void check_process() const;
  void give_back();
  void warn_of_end();
  void warn_of_none();
  [[nodiscard]] std::size_t slot(std::int64_t step) const;

  pid_t process_;  // that made it
  std::size_t slots_;
  std::int64_t dataset_size_;
  std::unique_ptr<BatchRing> ring_;
  std::optional<EpochPlan> plan_;
  std::int64_t step_ = 0;    // the step that next() delivers next
  int calls_at_end_ = 0;     // of next(), in this epoch
  bool has_warned_ = false;  // of such calls
  bool has_warned_of_none_ = false;
  std::optional<Stream> user_;  // the stream that uses batch step_ - 1, if next() gave one
  DataLoaderStatistics statistics_;
  std::unique_ptr<Prefetcher> prefetcher_;  // last, since its threads use the other members
};

}  // namespace ddp
