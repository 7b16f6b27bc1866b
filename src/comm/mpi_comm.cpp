// Collectives over MPI. Calls block, and so run in stream order: the host's stream is synchronous, a cuda
// stream is synchronised first and its data staged through pinned host memory.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "common/error.h"
#include "src/comm/comm.h"
#include "src/comm/mpi_reduction.h"
#include "src/comm/mpi_types.h"

namespace tt {
namespace {

/// Reductions are done in pieces of at most this many bytes: counts stay far below 2^31, and so does the
/// scratch memory that an MPI library takes for one call.
constexpr size_t kPieceBytes = size_t{256} << 20;

class MpiComm final : public Comm {
 public:
  MpiComm(const Group& group, Device& device)
      : comm_(group.comm()), rank_(group.rank()), size_(group.size()), device_(device) {
    TT_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string kind() const override { return "mpi"; }
  Versions versions() const override { return {}; }  // system_versions() has MPI's
  bool supports(DType) const override { return true; }
  bool supports(ReduceOp, DType) const override { return true; }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& s) override {
    Staged b(*this, send, count * size_of(type), recv, count * size_of(type), s);
    reduce_pieces(b.in, b.out, count, type, op, -1);
    b.finish();
  }

  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root,
              Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, bytes, recv, rank_ == root ? bytes : 0, s);
    reduce_pieces(b.in, b.out, count, type, op, root);
    b.finish();
  }

  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, rank_ == root ? bytes : 0, recv, bytes, s);
    const auto [mpi_type, n] = types_.span(bytes);
    void* buffer = rank_ == root ? const_cast<void*>(b.in) : b.out;
    TT_MPI(MPI_Bcast(buffer, n, mpi_type, root, comm_));
    if (rank_ == root && b.in != b.out) std::memcpy(b.out, b.in, bytes);
    b.finish();
  }

  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, bytes, recv, bytes * size_, s);
    const auto [mpi_type, n] = types_.span(bytes);
    const void* in = b.in == block(b.out, rank_, bytes) ? MPI_IN_PLACE : b.in;
    TT_MPI(MPI_Allgather(in, n, mpi_type, b.out, n, mpi_type, comm_));
    b.finish();
  }

  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op,
                      Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, bytes * size_, recv, bytes, s);
    // MPI allows no other overlap than its own in-place form, which puts the result elsewhere: work in
    // scratch memory.
    const bool overlaps = b.out == block(b.in, rank_, bytes);
    void* out = overlaps ? scratch(kResult, bytes) : b.out;
    scatter_reduced(b.in, out, count, type, op);
    if (overlaps) std::memcpy(b.out, out, bytes);
    b.finish();
  }

  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, bytes * size_, recv, bytes * size_, s);
    const auto [mpi_type, n] = types_.span(bytes);
    TT_MPI(MPI_Alltoall(b.in, n, mpi_type, b.out, n, mpi_type, comm_));
    b.finish();
  }

  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, bytes, recv, rank_ == root ? bytes * size_ : 0, s);
    const auto [mpi_type, n] = types_.span(bytes);
    const void* in = rank_ == root && b.in == block(b.out, rank_, bytes) ? MPI_IN_PLACE : b.in;
    TT_MPI(MPI_Gather(in, n, mpi_type, b.out, n, mpi_type, root, comm_));
    b.finish();
  }

  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, rank_ == root ? bytes * size_ : 0, recv, bytes, s);
    const auto [mpi_type, n] = types_.span(bytes);
    void* out = rank_ == root && b.out == block(b.in, rank_, bytes) ? MPI_IN_PLACE : b.out;
    TT_MPI(MPI_Scatter(b.in, n, mpi_type, out, n, mpi_type, root, comm_));
    b.finish();
  }

  void send_recv(const void* send, int to, void* recv, int from, size_t count, DType type,
                 Stream& s) override {
    const size_t bytes = count * size_of(type);
    Staged b(*this, send, bytes, recv, bytes, s);
    const auto [mpi_type, n] = types_.span(bytes);
    TT_MPI(
        MPI_Sendrecv(b.in, n, mpi_type, to, kTag, b.out, n, mpi_type, from, kTag, comm_, MPI_STATUS_IGNORE));
    b.finish();
  }

  void group_begin() override {}
  void group_end() override {}
  void register_memory(void*, size_t, bool) override {
    throw SkippedError("-R: MPI has no registration of buffers; it needs --comm nccl");
  }

 private:
  static constexpr int kTag = 77;

  static const void* block(const void* base, int index, size_t bytes) {
    return static_cast<const char*>(base) + static_cast<size_t>(index) * bytes;
  }

  /// The buffers that MPI works on: the caller's own on the host, else pinned copies of them. What is in
  /// place stays so.
  struct Staged {
    Staged(MpiComm& comm, const void* send, size_t send_bytes, void* recv, size_t recv_bytes, Stream& stream)
        : in(send), out(recv), comm_(comm), recv_(recv), recv_bytes_(recv_bytes), stream_(stream) {
      if (comm.device_.kind() == DeviceKind::host) return;
      stream.synchronize();
      const auto* s = static_cast<const char*>(send);
      auto* r = static_cast<char*>(recv);
      const bool in_recv = s >= r && s + send_bytes <= r + recv_bytes,
                 in_send = !in_recv && r >= s && r < s + send_bytes;
      char* host = comm.scratch(kStaging, in_recv   ? recv_bytes
                                          : in_send ? send_bytes
                                                    : send_bytes + recv_bytes);
      in = in_recv ? host + (s - r) : host;
      out = in_recv ? host : in_send ? host + (r - s) : host + send_bytes;
      comm.device_.copy(const_cast<void*>(in), send, send_bytes, stream);
      stream.synchronize();
    }
    void finish() {
      if (out != recv_ && recv_bytes_ > 0) comm_.device_.copy(recv_, out, recv_bytes_, stream_);
    }
    const void* in;
    void* out;

   private:
    MpiComm& comm_;
    void* recv_;
    size_t recv_bytes_;
    Stream& stream_;
  };

  enum Scratch : size_t { kStaging, kResult, kScaled };  // one call may need all three
  /// Host memory that grows as needed.
  char* scratch(Scratch which, size_t bytes) {
    Buffer& buffer = scratch_[which];
    if (buffer.bytes() < bytes || !buffer) buffer = device_.allocate_pinned(std::max<size_t>(bytes, 1));
    return buffer.at(0);
  }

  const MpiReduction& reduction(DType type, ReduceOp op) {
    return reductions_.try_emplace({type, op}, type, op).first->second;
  }

  /// root -1: all ranks get the result.
  void reduce_pieces(const void* in, void* out, size_t count, DType type, ReduceOp op, int root) {
    const size_t size = size_of(type), step = kPieceBytes / size;
    for (size_t first = 0; first < count || first == 0; first += step) {
      const size_t n = std::min(step, count - first);
      reduce_piece(block(in, 1, first * size), static_cast<char*>(out) + first * size, n, type, op, root);
    }
  }

  void reduce_piece(const void* in, void* out, size_t count, DType type, ReduceOp op, int root) {
    const MpiReduction& r = reduction(type, op);
    const bool has_out = root < 0 || rank_ == root;
    bool in_place = has_out && in == out;
    if (op == ReduceOp::mulsum) {
      // The input is not ours to change, unless it is also the output.
      void* scaled = has_out ? out : scratch(kScaled, count * size_of(type));
      multiply_elements(scaled, in, count, type, premul_scalar(rank_));
      in = scaled;
      in_place = has_out;
    }
    const void* send = in_place ? MPI_IN_PLACE : in;
    const int n = static_cast<int>(count);
    if (root < 0)
      TT_MPI(MPI_Allreduce(send, out, n, r.type(), r.op(), comm_));
    else
      TT_MPI(MPI_Reduce(send, out, n, r.type(), r.op(), root, comm_));
    if (op == ReduceOp::avg && has_out) divide_elements(out, count, type, size_);
  }

  /// in and out do not overlap. Large blocks are reduced to their ranks one after the other, in pieces.
  void scatter_reduced(const void* in, void* out, size_t count, DType type, ReduceOp op) {
    const size_t bytes = count * size_of(type);
    if (bytes * size_ > kPieceBytes || op == ReduceOp::mulsum) {
      for (int r = 0; r < size_; ++r) reduce_pieces(block(in, r, bytes), out, count, type, op, r);
      return;
    }
    const MpiReduction& r = reduction(type, op);
    TT_MPI(MPI_Reduce_scatter_block(in, out, static_cast<int>(count), r.type(), r.op(), comm_));
    if (op == ReduceOp::avg) divide_elements(out, count, type, size_);
  }

  MPI_Comm comm_;
  int rank_, size_;
  Device& device_;
  ByteTypes types_;
  std::map<std::pair<DType, ReduceOp>, MpiReduction> reductions_;
  Buffer scratch_[3];
};

}  // namespace

std::unique_ptr<Comm> open_mpi_comm(const Group& group, Device& device) {
  return std::make_unique<MpiComm>(group, device);
}

}  // namespace tt
