// The functions of src/comm/cuda that libtt_cuda.so exports, by type; looked up by the name in the comment.
// What they return is owned by the caller. Exceptions pass through: both sides are built by one compiler.
#pragma once

#include <cstddef>

namespace tt {
class Comm;
class Device;
class PatternRunner;
class Stream;
class StepGraph;
}  // namespace tt

namespace tt::cuda_entry {

/// "tt_make_pattern_runner"
using MakePatternRunner = PatternRunner*(Device& device);
/// "tt_nccl_unique_id": fills `id`, which holds kNcclIdBytes.
inline constexpr size_t kNcclIdBytes = 128;
using NcclUniqueId = void(char* id);
/// "tt_nccl_open"
using NcclOpen = Comm*(int rank, int ranks, const char* id, Device& device);
/// "tt_begin_capture", "tt_end_capture": what is enqueued between them becomes a graph instead of running.
using BeginCapture = void(Stream& stream);
using EndCapture = StepGraph*(Stream& stream);

}  // namespace tt::cuda_entry
