// What NCCL's log says about the algorithm it chose: no call tells it.
#pragma once

#include <string>
#include <string_view>

namespace tt {

/// "RING/LL128" of the last line of the form "... Algo RING proto LL128 ..." (NCCL_DEBUG=INFO,
/// NCCL_DEBUG_SUBSYS=TUNING, NCCL 2.24 and later; src/enqueue.cc); "" when there is none.
std::string algorithm_in(std::string_view log);

/// Has NCCL write that log to a file of this process, unless the user has set NCCL_DEBUG for purposes of
/// their own (false then). To be called before the first communicator is opened. The file is deleted when the
/// object ends.
class NcclTuningLog {
 public:
  NcclTuningLog();
  ~NcclTuningLog();
  NcclTuningLog(const NcclTuningLog&) = delete;
  NcclTuningLog& operator=(const NcclTuningLog&) = delete;
  bool on() const { return !path_.empty(); }
  /// algorithm_in() what was written since the last call.
  std::string last_algorithm();

 private:
  std::string path_;
  long read_ = 0;
};

}  // namespace tt
