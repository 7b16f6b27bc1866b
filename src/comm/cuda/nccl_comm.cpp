// Collectives over NCCL.
//
// The communicator is a blocking one (config.blocking is left at 1): a non-blocking one starts a thread for
// every launch (NCCL's src/group.cc, ncclGroupEndInternal), which would be measured as latency. A hang in its
// initialisation or in a collective is seen by the watchdog, whose thread does not depend on this one.
#include <nccl.h>

#include <cstring>
#include <exception>
#include <map>
#include <vector>

#include "common/error.h"
#include "src/comm/comm.h"
#include "src/comm/cuda/nccl_types.h"
#include "src/comm/cuda_entry.h"
#include "src/device/cuda/cuda_device.h"

namespace tt {
namespace {

static_assert(sizeof(ncclUniqueId) == cuda_entry::kNcclIdBytes);

ncclComm_t open_handle(int rank, int ranks, const char* id_bytes) {
  ncclUniqueId id;
  std::memcpy(&id, id_bytes, sizeof id);
  ncclComm_t comm = nullptr;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  config.nvlinkCentricSched = 1;  // as nccl-tests does from 2.28 on, so that figures compare
#endif
  TT_NCCL(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), nullptr);
#else
  TT_NCCL(ncclCommInitRank(&comm, ranks, id, rank), nullptr);
#endif
  return comm;
}

class NcclComm final : public Comm {
 public:
  NcclComm(int rank, int ranks, const char* id, Device& device) : rank_(rank), size_(ranks), device_(device) {
    device_.activate();
    comm_ = open_handle(rank, ranks, id);
  }

  ~NcclComm() override {
    // While an exception unwinds, the others may not come to their end of a destruction.
    if (std::uncaught_exceptions() > 0) {
      ncclCommAbort(comm_);
      return;  // memory that the aborted work may still use is left to the end of the process
    }
    release();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string kind() const override { return "nccl"; }
  Versions versions() const override { return {{"nccl", nccl_version_text()}}; }

  bool supports(DType type) const override {
    const bool fp8 = type == DType::f8e4m3 || type == DType::f8e5m2;
    if (fp8 && device_.identity().capability < 90) return false;  // NCCL has its fp8 kernels from Hopper on
    return nccl_type(type).has_value();
  }
  bool supports(ReduceOp op, DType type) const override {
    // avg is a product too inside NCCL, which refuses products by a scalar for fp8 (seen with 2.28: "invalid
    // argument").
    const bool fp8 = type == DType::f8e4m3 || type == DType::f8e5m2;
    if (fp8 && (op == ReduceOp::avg || op == ReduceOp::mulsum)) return false;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 11, 0)
    if (op == ReduceOp::mulsum) return supports(type);
#endif
    return supports(type) && nccl_op(op).has_value();
  }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& s) override {
    TT_NCCL(ncclAllReduce(send, recv, count, of(type), of(op, type), comm_, native(s)), comm_);
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root,
              Stream& s) override {
    TT_NCCL(ncclReduce(send, recv, count, of(type), of(op, type), root, comm_, native(s)), comm_);
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    TT_NCCL(ncclBroadcast(send, recv, count, of(type), root, comm_, native(s)), comm_);
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& s) override {
    TT_NCCL(ncclAllGather(send, recv, count, of(type), comm_, native(s)), comm_);
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op,
                      Stream& s) override {
    TT_NCCL(ncclReduceScatter(send, recv, count, of(type), of(op, type), comm_, native(s)), comm_);
  }

  // From 2.28 on these three are calls of NCCL's; before, they are groups of sends and receives, which NCCL's
  // own are made of.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& s) override {
    if (count == 0) return;
    TT_NCCL(ncclAlltoAll(send, recv, count, of(type), comm_, native(s)), comm_);
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    if (count == 0) return;
    TT_NCCL(ncclGather(send, recv, count, of(type), root, comm_, native(s)), comm_);
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    if (count == 0) return;
    TT_NCCL(ncclScatter(send, recv, count, of(type), root, comm_, native(s)), comm_);
  }
#else
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& s) override {
    const size_t bytes = count * size_of(type);
    in_group(count, [&] {
      for (int r = 0; r < size_; ++r) {
        send_to(block(send, r, bytes), count, type, r, s);
        receive_from(block(recv, r, bytes), count, type, r, s);
      }
    });
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    const size_t bytes = count * size_of(type);
    in_group(count, [&] {
      send_to(send, count, type, root, s);
      for (int r = 0; rank_ == root && r < size_; ++r) receive_from(block(recv, r, bytes), count, type, r, s);
    });
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& s) override {
    const size_t bytes = count * size_of(type);
    in_group(count, [&] {
      for (int r = 0; rank_ == root && r < size_; ++r) send_to(block(send, r, bytes), count, type, r, s);
      receive_from(recv, count, type, root, s);
    });
  }
#endif

  void send_recv(const void* send, int to, void* recv, int from, size_t count, DType type,
                 Stream& s) override {
    in_group(count, [&] {
      send_to(send, count, type, to, s);
      receive_from(recv, count, type, from, s);
    });
  }

  void group_begin() override {
    TT_NCCL(ncclGroupStart(), comm_);
  }
  void group_end() override {
    TT_NCCL(ncclGroupEnd(), comm_);
  }

  void* allocate(size_t bytes) override {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    void* data = nullptr;
    TT_NCCL(ncclMemAlloc(&data, bytes), comm_);
    memory_.push_back(data);
    return data;
#else
    (void)bytes;
    return nullptr;
#endif
  }

  void register_memory(void* data, size_t bytes, bool symmetric) override {
    if (symmetric)
      register_window(data, bytes);
    else
      register_local(data, bytes);
  }

 private:
  ncclDataType_t of(DType type) const {
    if (const auto t = nccl_type(type)) return *t;
    throw SkippedError(std::string("NCCL ") + nccl_version_text() + " has no type " + name_of(type));
  }

  ncclRedOp_t of(ReduceOp op, DType type) {
    if (const auto o = nccl_op(op)) return *o;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 11, 0)
    if (op == ReduceOp::mulsum) {
      const auto known = mulsum_.find(type);
      if (known != mulsum_.end()) return known->second;
      auto scalar = premul_bytes(type, rank_);
      ncclRedOp_t made{};
      TT_NCCL(ncclRedOpCreatePreMulSum(&made, scalar.data(), of(type), ncclScalarHostImmediate, comm_),
              comm_);
      mulsum_.emplace(type, made);
      return made;
    }
#endif
    throw SkippedError(std::string("NCCL ") + nccl_version_text() + " has no reduction " + name_of(op));
  }

  template <class F>
  void in_group(size_t count, F&& f) {
    if (count == 0) return;
    TT_NCCL(ncclGroupStart(), comm_);
    f();
    TT_NCCL(ncclGroupEnd(), comm_);
  }
  static void* block(void* base, int index, size_t bytes) {
    return static_cast<char*>(base) + static_cast<size_t>(index) * bytes;
  }
  static const void* block(const void* base, int index, size_t bytes) {
    return static_cast<const char*>(base) + static_cast<size_t>(index) * bytes;
  }
  void send_to(const void* data, size_t count, DType type, int rank, Stream& s) {
    TT_NCCL(ncclSend(data, count, of(type), rank, comm_, native(s)), comm_);
  }
  void receive_from(void* data, size_t count, DType type, int rank, Stream& s) {
    TT_NCCL(ncclRecv(data, count, of(type), rank, comm_, native(s)), comm_);
  }

  void register_local(void* data, size_t bytes) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    void* handle = nullptr;
    TT_NCCL(ncclCommRegister(comm_, data, bytes, &handle), comm_);
    if (handle) registrations_.push_back(handle);
#else
    (void)data, (void)bytes;
    throw SkippedError("-R 1: needs NCCL 2.19, this is " + nccl_version_text());
#endif
  }

  void register_window(void* data, size_t bytes) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    ncclWindow_t window = nullptr;
    TT_NCCL(ncclCommWindowRegister(comm_, data, bytes, &window, NCCL_WIN_COLL_SYMMETRIC), comm_);
    // NCCL answers a communicator without symmetric memory with success and no window.
    if (!window)
      throw SkippedError("-R 2: NCCL has no symmetric memory for this communicator of " +
                         std::to_string(size_) +
                         " ranks (it needs more than one, with peer access or multicast between all)");
    windows_.push_back(window);
#else
    (void)data, (void)bytes;
    throw SkippedError("-R 2: needs NCCL 2.27, this is " + nccl_version_text());
#endif
  }

  /// Errors are left alone: there is nobody to tell, and the process ends soon.
  void release() noexcept {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    for (ncclWindow_t window : windows_) ncclCommWindowDeregister(comm_, window);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    for (void* handle : registrations_) ncclCommDeregister(comm_, handle);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 11, 0)
    for (auto& [type, op] : mulsum_) ncclRedOpDestroy(op, comm_);
#endif
    ncclCommDestroy(comm_);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    for (void* data : memory_) ncclMemFree(data);
#endif
  }

  int rank_, size_;
  Device& device_;
  ncclComm_t comm_ = nullptr;
  std::map<DType, ncclRedOp_t> mulsum_;
  std::vector<void*> memory_, registrations_;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  std::vector<ncclWindow_t> windows_;
#endif
};

}  // namespace
}  // namespace tt

TT_EXPORT void tt_nccl_unique_id(char* id) {
  ncclUniqueId made;
  TT_NCCL(ncclGetUniqueId(&made), nullptr);
  std::memcpy(id, &made, sizeof made);
}

TT_EXPORT tt::Comm* tt_nccl_open(int rank, int ranks, const char* id, tt::Device& device) {
  return new tt::NcclComm(rank, ranks, id, device);
}
