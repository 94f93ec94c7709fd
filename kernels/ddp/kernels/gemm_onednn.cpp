// SPDX-License-Identifier: MIT
//
// oneDNN cuts a product for the number of threads, and sums what lies at an edge in another order:
// on AVX2 the last 1 to 3 rows of a thread, with 15 or fewer rows on AVX-512 all of them. So we cut
// it, by its shape alone (detail/gemm_tiles.h), and oneDNN computes each tile with one thread.
#include <dnnl.h>

#include <atomic>
#include <cstddef>

#include "ddp/base/system/dynamic_library.h"
#include "ddp/base/threads/all_signals_blocked.h"
#include "ddp/kernels/conv2d/onednn_version.h"
#include "ddp/kernels/detail/gemm_onednn.h"
#include "ddp/kernels/detail/gemm_tiles.h"

namespace ddp::detail {
namespace {

// Below it, OpenBLAS's lower cost of a call outweighs oneDNN's faster loops. The rows of A do not
// count: they are often a batch, and a sample's result should not depend on the others.
constexpr std::size_t kWorthwhile = 1024;

// oneDNN, and the OpenMP that it brings along. Linking OpenMP would slow every start, and oneDNN
// would not notice that it is called by a thread of another OpenMP's team.
struct Library {
  decltype(dnnl_sgemm)* sgemm = nullptr;
  int (*max_threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  // What "#pragma omp parallel" calls: function, its argument, number of threads, flags.
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  bool has_openmp = false;
};

Library open_library() {
  // OpenMP's threads would lose their code if it was closed.
  const DynamicLibrary library(DDP_ONEDNN_SONAME, DynamicLibrary::Lifetime::kProcess);
  Library found;
  if (!library.find("dnnl_sgemm", found.sgemm)) return found;
  found.has_openmp = library.find("omp_get_max_threads", found.max_threads) &&
                     library.find("omp_set_num_threads", found.set_threads) &&
                     library.find("GOMP_parallel", found.parallel);
  return found;
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

// oneDNN computes with one thread if the calling thread may not have more, or is one of a team.
class OneThreadEach {
 public:
  OneThreadEach() : threads_(library().max_threads()) { library().set_threads(1); }
  ~OneThreadEach() { library().set_threads(threads_); }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;

  [[nodiscard]] int threads() const { return threads_; }  // that the caller may have

 private:
  int threads_;
};

// Calls of dnnl_sgemm for products of one shape.
class Products {
 public:
  Products(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
           const GemmOptions& options)
      : a_(static_cast<const float*>(a.data)),
        b_(static_cast<const float*>(b.data)),
        c_(static_cast<float*>(c.data)),
        a_step_(a.count == shape.m * shape.k ? 0 : shape.m * shape.k),
        b_step_(b.count == shape.k * shape.n ? 0 : shape.k * shape.n),
        count_(c.count / (shape.m * shape.n)),
        shape_(shape),
        options_(options) {}

  // Each with as many threads as oneDNN likes.
  void compute_whole() {
    tiles_ = {{shape_.m, shape_.m}, {shape_.n, shape_.n}};
    for (std::size_t i = 0; i < count_; ++i) compute_tile(i);
  }

  void compute_in_tiles() {
    // Waking threads takes as long as about so many multiplications.
    constexpr std::size_t kWorthThreads = std::size_t{1} << 17;
    tiles_ = gemm_tiles(shape_.m, shape_.n);
    const std::size_t tiles = count_ * tiles_.rows.count() * tiles_.columns.count();
    tiles_left_.store(static_cast<std::ptrdiff_t>(tiles));
    if (!library().has_openmp) return compute_tiles(this);
    const OneThreadEach each;
    const bool is_small = tiles == 1 || count_ * shape_.m * shape_.n * shape_.k < kWorthThreads;
    if (is_small || each.threads() == 1) return compute_tiles(this);
    library().parallel(compute_tiles, this, static_cast<unsigned>(each.threads()), 0);
    // For the thread sanitizer, which does not see OpenMP's barriers.
    static_cast<void>(tiles_left_.load());
  }

  [[nodiscard]] dnnl_status_t status() const { return status_; }

 private:
  // On every thread of a team.
  static void compute_tiles(void* products) {
    auto& self = *static_cast<Products*>(products);
    for (std::ptrdiff_t left = 0; (left = self.tiles_left_.fetch_sub(1)) > 0;) {
      self.compute_tile(static_cast<std::size_t>(left - 1));
    }
  }

  void compute_tile(std::size_t tile) {
    const auto [m, n, k] = shape_;
    const auto& [rows, columns] = tiles_;
    const std::size_t j = tile % columns.count(), row_of_tiles = tile / columns.count();
    const std::size_t i = row_of_tiles % rows.count(), product = row_of_tiles / rows.count();
    const bool turns_a = options_.transpose_a == Transpose::kYes;
    const bool turns_b = options_.transpose_b == Transpose::kYes;
    const auto dim = [](std::size_t size) { return static_cast<dnnl_dim_t>(size); };
    const dnnl_status_t status = library().sgemm(
        turns_a ? 'T' : 'N', turns_b ? 'T' : 'N', dim(rows.size_of(i)), dim(columns.size_of(j)),
        dim(k), static_cast<float>(options_.alpha),
        a_ + product * a_step_ + rows.begin(i) * (turns_a ? 1 : k), dim(turns_a ? m : k),
        b_ + product * b_step_ + columns.begin(j) * (turns_b ? k : 1), dim(turns_b ? k : n),
        static_cast<float>(options_.beta),
        c_ + product * m * n + rows.begin(i) * n + columns.begin(j), dim(n));
    if (status != dnnl_success) status_ = status;
  }

  const float* a_;
  const float* b_;
  float* c_;
  std::size_t a_step_, b_step_;  // from one product to the next; 0 if they share the operand
  std::size_t count_;
  GemmShape shape_;
  GemmOptions options_;
  GemmTiles tiles_;
  std::atomic<std::ptrdiff_t> tiles_left_{0};
  std::atomic<dnnl_status_t> status_{dnnl_success};
};

bool is_for_onednn(const Buffer& c, const GemmShape& shape) {
  return c.dtype == DType::kFloat32 && shape.n * shape.k >= kWorthwhile && c.count > 0 &&
         has_onednn_gemm();
}

}  // namespace

bool has_onednn_gemm() { return library().sgemm != nullptr; }

bool gemm_by_onednn(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                    const GemmOptions& options) {
  if (!is_for_onednn(c, shape)) return false;
  const AllSignalsBlocked blocked;  // see detail/gemm_onednn.h
  Products product(a, b, c, shape, options);
  if (options.transpose_a == Transpose::kYes) {
    product.compute_whole();
  } else {
    product.compute_in_tiles();
  }
  cpu::check_onednn(product.status(), "sgemm");
  return true;
}

bool gemm_batched_by_onednn(const Buffer& a, const Buffer& b, const Buffer& c,
                            const GemmShape& shape, const GemmOptions& options) {
  if (!is_for_onednn(c, shape)) return false;
  const AllSignalsBlocked blocked;
  Products products(a, b, c, shape, options);
  products.compute_in_tiles();
  cpu::check_onednn(products.status(), "sgemm");
  return true;
}

}  // namespace ddp::detail
