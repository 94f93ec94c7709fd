// SPDX-License-Identifier: MIT
//
// Reverse-mode differentiation. An operation computes its result, then records on a tape how the
// gradient of the result turns into gradients of its inputs. backward() plays the tape in reverse.
// There is no global tape: it is an argument of every operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ddp/kernels/shapes.h"
#include "ddp/nn/context.h"
#include "ddp/nn/parameter.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Tape;

// A tensor as an operation sees it: its value, its tape and its slot there. A plain tensor converts
// to a constant, through which no gradient flows.
class Variable {
 public:
  Variable(Tensor value) : value_(std::move(value)) {}  // NOLINT: a constant is just its value

  [[nodiscard]] const Tensor& value() const { return value_; }
  [[nodiscard]] const Buffer& buffer() const { return value_.buffer(); }
  [[nodiscard]] const Shape& shape() const { return value_.shape(); }
  [[nodiscard]] bool is_constant() const { return slot_ == kNoSlot; }

  // Shares elements and gradient, so nothing is recorded.
  [[nodiscard]] Variable reshaped(const Shape& shape) const {
    return {value_.reshaped(shape), tape_, slot_};
  }

 private:
  friend class Tape;
  static constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};
  Variable(Tensor value, const Tape* tape, std::uint64_t slot)
      : value_(std::move(value)), tape_(tape), slot_(slot) {}

  Tensor value_;
  const Tape* tape_ = nullptr;
  std::uint64_t slot_ = kNoSlot;
};

// Computes the gradient of one input from the output's gradient, and writes it to the target.
using BackwardFunction =
    std::function<void(const Buffer& grad_output, const GradientTarget& grad_input)>;

struct Edge {
  Variable input;
  BackwardFunction backward;
};

struct BackwardOptions {
  // The gradient of the loss with respect to itself; with DistributedDataParallel, the result of
  // begin_step().
  double seed = 1;
  // Called as soon as a parameter's gradient is final, while backward goes on with the others. On
  // CUDA "final" means that its last kernel has been enqueued on the context's stream. It must not
  // use this tape.
  std::function<void(Parameter&)> on_grad_ready = {};
};

// The random choices of a batch are a function of this key, the layer and the row of the global
// batch, so they do not depend on which rank has the row. With our samplers, rank r of W has rows
// r, r + W, ...: first_row = r, row_stride = W.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  // a number that no other batch of the training has
  std::uint64_t first_row = 0;
  std::uint64_t row_stride = 1;

  // The key of the rows from `row` on of this batch.
  [[nodiscard]] RandomKey from_row(std::size_t row) const {
    return {seed, step, first_row + row * row_stride, row_stride};
  }
};

enum class Recording : std::uint8_t { kOn, kOff };

// For one thread at a time. With kOff nothing is recorded, and activations are freed at once. With
// kOn they stay until backward(), so a validation on such a tape keeps those of all its batches (a
// warning says so). The context must outlive it.
class Tape {
 public:
  // `autocast`: a 16-bit type for mixed precision, as amp/autocast.h says; std::invalid_argument
  // for any other.
  explicit Tape(Context& context, Recording recording = Recording::kOn,
                std::optional<DType> autocast = {});
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  [[nodiscard]] Context& context() { return context_; }
  [[nodiscard]] Recording recording() const { return recording_; }
  [[nodiscard]] std::optional<DType> autocast() const { return autocast_; }

  // Set it before each forward pass that makes random choices. backward() forgets it, since a key
  // that is used twice gives the same choices. std::logic_error if there is none.
  void set_random_key(const RandomKey& key) { random_key_ = key; }
  [[nodiscard]] bool has_random_key() const { return random_key_.has_value(); }
  [[nodiscard]] const RandomKey& random_key() const;

  // The parameter's value as an operand. It has one gradient, however often it is watched. A
  // constant if the parameter is frozen.
  [[nodiscard]] Variable watch(Parameter& parameter);

  // For operations: casts a float32 operand to the autocast type and returns any other unchanged. A
  // parameter is cast only once until backward(), clear(), a broadcast, a restored checkpoint, or a
  // change that its version() shows.
  [[nodiscard]] Variable narrowed(const Variable& operand);

  // For operations: `output` was computed from the inputs of `edges`. Backward runs the edges in
  // the given order: put parameters first, so that they are reported before the rest is computed.
  template <class... Edges>
  [[nodiscard]] Variable record(Tensor output, Edges... edges) {
    (check_on_tape(edges.input), ...);
    const std::size_t first_edge = edges_.size();
    (add_edge(std::move(edges)), ...);
    return add_node(std::move(output), first_edge);
  }

  // As above, for a number of edges that is not known at compile time.
  [[nodiscard]] Variable record_all(Tensor output, std::vector<Edge> edges);

  // Writes the gradient of every parameter that `loss` (one element) depends on into its grad():
  // overwrites it if the parameter has no gradient yet, otherwise adds. Returns those parameters in
  // the order in which their gradients became final. All other parameters keep memory and
  // has_grad(). Consumes the recording: using a Variable that was made before is a
  // std::logic_error. If it throws, the parameters that it has reached have no gradient any more,
  // also where it was to be added to an earlier one.
  std::vector<Parameter*> backward(const Variable& loss, const BackwardOptions& options = {});
  // Throws what backward() throws about a loss: std::logic_error if it depends on no parameter, or
  // on one whose value has changed since the loss was computed; std::invalid_argument unless it is
  // one element that an operation has computed.
  void check_loss(const Variable& loss) const;
  // Drops the recording, as backward() does.
  void clear();

 private:
  struct Slot {
    Shape shape;
    DType dtype = DType::kFloat32;
    Parameter* parameter = nullptr;  // null for the result of an operation
    std::uint64_t version = 0;       // the parameter's when it was watched
    Tensor grad;                     // of what an operation computed, while it is needed
    std::size_t pending_uses = 0;
    bool is_written = false;
  };
  struct Watch {
    std::uint64_t slot = 0;
    std::uint64_t version = 0;  // the parameter's then
    int times = 0;
  };
  struct RecordedEdge {
    std::size_t input = 0;
    BackwardFunction backward;
  };
  struct Node {
    std::size_t output = 0;  // index into slots_, as is an edge's input
    std::size_t first_edge = 0;
  };

  void check_on_tape(const Variable& variable) const;
  void check_unchanged(const Variable& loss) const;
  void add_edge(Edge edge);
  Variable add_node(Tensor output, std::size_t first_edge);
  std::uint64_t add_slot(const Tensor& value, Parameter* parameter);
  void warn_of_growth(const Parameter& parameter);
  [[nodiscard]] std::size_t index_of(const Variable& variable) const;
  GradientTarget target_of(Slot& slot);
  void play(const BackwardOptions& options, std::vector<Parameter*>& reached);
  void drop_gradients();

  Context& context_;
  Recording recording_;
  std::optional<DType> autocast_;
  std::optional<RandomKey> random_key_;
  // Grows with each backward, and differs from tape to tape, so that old slots show.
  std::uint64_t first_slot_;
  std::vector<Slot> slots_;
  std::vector<RecordedEdge> edges_;
  std::vector<Node> nodes_;
  std::unordered_map<const Parameter*, Watch> watched_;
  bool has_warned_ = false;
  std::unordered_map<std::uint64_t, Variable> narrowed_;  // of parameters, by slot
  std::uint64_t seen_writes_ = 0;  // tensor_writes() when narrowed_ was used last
};

}  // namespace ddp::nn
