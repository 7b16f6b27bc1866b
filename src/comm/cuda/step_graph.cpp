// CUDA graphs of steps (-G).
#include "src/comm/step_graph.h"

#include <type_traits>

#include "src/comm/cuda_entry.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/cuda_device.h"

namespace tt {
namespace {

struct GraphDelete {
  void operator()(cudaGraph_t graph) const noexcept { cudaGraphDestroy(graph); }
};
struct GraphExecDelete {
  void operator()(cudaGraphExec_t exec) const noexcept { cudaGraphExecDestroy(exec); }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphDelete>;
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphExecDelete>;

class CudaStepGraph final : public StepGraph {
 public:
  explicit CudaStepGraph(Graph graph) : graph_(std::move(graph)) {
    cudaGraphExec_t exec = nullptr;
    TT_CUDA(cudaGraphInstantiateWithFlags(&exec, graph_.get(), 0));
    exec_.reset(exec);
  }
  void launch(Stream& stream) override { TT_CUDA(cudaGraphLaunch(exec_.get(), native(stream))); }

 private:
  Graph graph_;
  GraphExec exec_;
};

}  // namespace
}  // namespace tt

/// Only this thread's calls are held to what a capture allows: the watchdog's thread looks at events
/// meanwhile.
TT_EXPORT void tt_begin_capture(tt::Stream& stream) {
  TT_CUDA(cudaStreamBeginCapture(tt::native(stream), cudaStreamCaptureModeThreadLocal));
}

TT_EXPORT tt::StepGraph* tt_end_capture(tt::Stream& stream) {
  cudaGraph_t graph = nullptr;
  TT_CUDA(cudaStreamEndCapture(tt::native(stream), &graph));
  return new tt::CudaStepGraph(tt::Graph(graph));
}
