// SPDX-License-Identifier: MIT
#include "support/device_work.h"

#include <memory>
#include <type_traits>
#include <vector>

#include "ddp/cuda/check.h"

namespace ddp::bench {
namespace {

struct Destroy {
  void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;

// The capture mode is relaxed, so that `call` may make CUDA calls that are not part of the capture.
OwnedGraph capture(Stream stream, const std::function<void()>& call) {
  const auto native = stream.native;
  cudaGraph_t graph = nullptr;
  DDP_CUDA_CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeRelaxed));
  try {
    call();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(native, &graph));
    static_cast<void>(cudaGetLastError());
    const OwnedGraph discarded(graph);
    throw;
  }
  DDP_CUDA_CHECK(cudaStreamEndCapture(native, &graph));
  return OwnedGraph(graph);
}

void count(cudaGraphNode_t node, DeviceWork& work) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  DDP_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
  if (type == cudaGraphNodeTypeKernel) ++work.kernels;
  if (type == cudaGraphNodeTypeMemcpy) {
    cudaMemcpy3DParms copy{};
    DDP_CUDA_CHECK(cudaGraphMemcpyNodeGetParams(node, &copy));
    ++work.copies;
    work.bytes += copy.extent.width * copy.extent.height * copy.extent.depth;
  }
  if (type == cudaGraphNodeTypeMemset) {
    cudaMemsetParams fill{};
    DDP_CUDA_CHECK(cudaGraphMemsetNodeGetParams(node, &fill));
    ++work.copies;
    work.bytes += fill.elementSize * fill.width * fill.height;
  }
}

}  // namespace

DeviceWork device_work_of(Stream stream, const std::function<void()>& call) {
  const OwnedGraph graph = capture(stream, call);
  std::size_t size = 0;
  DDP_CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &size));
  std::vector<cudaGraphNode_t> nodes(size);
  DDP_CUDA_CHECK(cudaGraphGetNodes(graph.get(), nodes.data(), &size));
  DeviceWork work;
  for (const cudaGraphNode_t node : nodes) count(node, work);
  return work;
}

}  // namespace ddp::bench
