// SPDX-License-Identifier: MIT
#pragma once

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
  DType dtype = DType::kFloat32;  // of the inputs
  Device device = kCpuDevice;     // where batches are delivered
  int num_workers = 0;            // threads that gather; without any, next() does
  int prefetch = 0;               // batches they gather ahead of the one in use; 0: two a worker
};

// Of the epoch that was started last.
struct DataLoaderStatistics {
  std::int64_t batches = 0;  // delivered
  double wait_seconds = 0;   // that next() needed for them, to wait for a worker or gather itself
};

// Delivers the batches of an epoch in the order of its plan:
//
//   loader.start(sampler.next_epoch());
//   while (const auto batch = loader.next(stream)) train(*batch);
//
// Batches and their order depend on the plan alone, not on num_workers or prefetch. Batches use a
// few buffers in turn, which keep their addresses until a plan needs larger ones; nothing is
// allocated between start() and the epoch's end. On CUDA, batches are copied on a stream of the
// loader's own while the consumer works on earlier ones.
//
// The consumer is one thread at a time. Workers take no signals. To destroy the loader, or to
// start() inside an epoch, waits for the gathers that run now.
class DataLoader {
 public:
  // The dataset must outlive the loader. Throws std::invalid_argument if an option is negative,
  // SystemError if a worker cannot start.
  DataLoader(const Dataset& dataset, const DataLoaderOptions& options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // Begins an epoch, or what is left of one; what remains of the last plan is forgotten.
  void start(EpochPlan plan);

  // The next batch, or nothing after the last one. It is ready for work on `stream` (which outlives
  // it) and stays valid until the next call: work that is on `stream` by then still finds it
  // intact.
  //
  // Throws what the dataset threw for this batch, again at each call until start();
  // std::logic_error before start().
  [[nodiscard]] std::optional<Batch> next(Stream stream = {});

  // The plan of the epoch that was started. std::logic_error before start().
  [[nodiscard]] const EpochPlan& plan() const;

  // Where the job stands behind the batch that next() delivered last; batches gathered ahead do not
  // count. What a checkpoint holds, and Sampler::seek() takes. std::logic_error before start().
  [[nodiscard]] DataPosition position() const { return plan().position(step_); }

  [[nodiscard]] const DataLoaderStatistics& statistics() const { return statistics_; }

 private:
  void give_back();
  [[nodiscard]] std::size_t slot(std::int64_t step) const;

  std::size_t slots_;
  std::unique_ptr<BatchRing> ring_;
  std::optional<EpochPlan> plan_;
  std::int64_t step_ = 0;       // that next() delivers next
  std::optional<Stream> user_;  // of batch step_ - 1, if the consumer has it
  DataLoaderStatistics statistics_;
  std::unique_ptr<Prefetcher> prefetcher_;  // last: its threads use the others
};

}  // namespace ddp
