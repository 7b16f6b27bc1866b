// Collectives, with two implementations: mpi (any device; cuda buffers are staged through pinned host memory)
// and nccl (in libtt_cuda.so).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.h"
#include "common/group.h"
#include "common/identity.h"
#include "common/stream.h"
#include "src/device/device.h"

namespace tt {

enum class ReduceOp { sum, prod, max, min, avg, mulsum };
const char* name_of(ReduceOp op) noexcept;
/// "sum" "prod" "max" "min" "avg" "mulsum", else UsageError naming option, text and these.
ReduceOp parse_reduce_op(std::string_view option, std::string_view text);
std::vector<ReduceOp> all_reduce_ops();

/// What mulsum multiplies this rank's contribution by before the sum: 1 on even ranks, 2 on odd ones, as in
/// nccl-tests. Exact in every type.
constexpr int premul_scalar(int rank) noexcept {
  return 1 + rank % 2;
}

/// A communicator bound to a device. All calls enqueue on the stream and are made by every member in the same
/// order. Counts are elements. In place means what it means in NCCL: send == recv, or for the operations with
/// one block per rank that the smaller of the two is this rank's block of the larger one. Errors: DeviceError
/// / LibraryError with the library's text and the rank.
class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string kind() const = 0;  // "nccl" or "mpi"
  virtual Versions versions() const = 0;
  virtual bool supports(DType type) const = 0;
  virtual bool supports(ReduceOp op, DType type) const = 0;

  virtual void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& s) = 0;
  virtual void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root,
                      Stream& s) = 0;
  virtual void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& s) = 0;
  /// recv holds size() * count.
  virtual void all_gather(const void* send, void* recv, size_t count, DType type, Stream& s) = 0;
  /// send holds size() * count.
  virtual void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op,
                              Stream& s) = 0;
  virtual void all_to_all(const void* send, void* recv, size_t count, DType type,
                          Stream& s) = 0;  // count per peer
  virtual void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& s) = 0;
  virtual void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& s) = 0;
  /// Sends `count` to `to` and receives as many from `from`.
  virtual void send_recv(const void* send, int to, void* recv, int from, size_t count, DType type,
                         Stream& s) = 0;

  /// Memory that this library can work on best (NCCL: ncclMemAlloc), owned by the comm and valid as long as
  /// it; nullptr where the device's own memory is as good.
  virtual void* allocate(size_t bytes) {
    (void)bytes;
    return nullptr;
  }

  /// Operations between these are one launch (nccl group); no-ops elsewhere.
  virtual void group_begin() = 0;
  virtual void group_end() = 0;
  /// Registers memory for zero-copy (`-R 1`); the registration ends with the comm, which the memory must
  /// outlive (that of allocate() does). `symmetric`: `-R 2`, allocate()'s memory only. Collective. Throws
  /// SkippedError with the reason where it is not supported.
  virtual void register_memory(void* data, size_t bytes, bool symmetric) = 0;
};

/// wanted: "auto" (nccl for cuda, mpi for host), "nccl", "mpi". EnvironmentError when it cannot be had, with
/// the reason.
std::unique_ptr<Comm> open_comm(const std::string& wanted, const Group& group, Device& device,
                                Progress& progress);

std::unique_ptr<Comm> open_mpi_comm(const Group& group, Device& device);

}  // namespace tt
