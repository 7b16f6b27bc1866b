// Work recorded once and launched many times (-G): a CUDA graph.
#pragma once

#include <functional>
#include <memory>

#include "src/device/device.h"

namespace tt {

class StepGraph {
 public:
  virtual ~StepGraph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// Records what `work` enqueues on the stream. SkippedError on the host device, which has no graphs.
std::unique_ptr<StepGraph> record_graph(Device& device, Stream& stream, const std::function<void()>& work);

}  // namespace tt
