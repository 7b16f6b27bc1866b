#include "common/error.h"
#include "src/comm/comm.h"
#include "src/comm/cuda_entry.h"
#include "src/device/cuda_library.h"

namespace tt {
namespace {

std::unique_ptr<Comm> open_nccl_comm(const Group& group, Device& device, Progress& progress) {
  if (device.kind() != DeviceKind::cuda)
    throw EnvironmentError("--comm nccl needs --device cuda; this rank's device is the host");
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) throw EnvironmentError("--comm nccl: " + CudaLibrary::error());
  // NCCL's blocking initialisation can hang when a peer is missing. The watchdog's own thread sees it by this
  // phase.
  progress.enter_phase("NCCL_init");
  char id[cuda_entry::kNcclIdBytes] = {};
  if (group.rank() == 0) library->function<cuda_entry::NcclUniqueId>("tt_nccl_unique_id")(id);
  group.broadcast_bytes(id, sizeof id, 0);
  ActivityScope waiting(progress, Activity::waiting);
  return std::unique_ptr<Comm>(
      library->function<cuda_entry::NcclOpen>("tt_nccl_open")(group.rank(), group.size(), id, device));
}

}  // namespace

std::unique_ptr<Comm> open_comm(const std::string& wanted, const Group& group, Device& device,
                                Progress& progress) {
  const bool cuda = device.kind() == DeviceKind::cuda;
  if (wanted == "nccl" || (wanted == "auto" && cuda)) return open_nccl_comm(group, device, progress);
  return open_mpi_comm(group, device);
}

}  // namespace tt
