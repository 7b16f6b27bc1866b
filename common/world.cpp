#include "common/world.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "common/clock.h"
#include "common/error.h"

namespace tt {
namespace {

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

void check_thread_level(int granted) {
  if (granted >= MPI_THREAD_SERIALIZED) return;
  throw EnvironmentError(std::string("MPI grants ") + level_name(granted) +
                         ", MPI_THREAD_SERIALIZED is needed");
}

void check_world_size(const Launcher& launcher, int size) {
  if (size > 1 || launcher.size.value_or(1) <= 1) return;
  throw EnvironmentError(
      launcher.described() + ", the MPI world 1: the processes did not find each other, and " +
      std::to_string(*launcher.size) + " lone runs are not one; use `srun --mpi=pmix` (see `srun " +
      "--mpi=list`), or the mpirun of the MPI that this was built with");
}

MPI_Comm split_by_host(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm local = MPI_COMM_NULL;
  TT_MPI(MPI_Comm_rank(comm, &rank));
  TT_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local));
  return local;
}

}  // namespace

World::World(int& argc, char**& argv, Progress& progress) : launcher_(detect_launcher()), host_(host_name()) {
  progress.enter_phase("MPI_Init");
  {
    ActivityScope waiting(progress, Activity::waiting);
    int granted = MPI_THREAD_SINGLE;
    TT_MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &granted));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check_thread_level(granted);
  }
  progress.enter_phase("find the ranks");
  const ActivityScope waiting(progress, Activity::waiting);
  all_ = std::make_unique<Group>(MPI_COMM_WORLD, progress);
  check_world_size(launcher_, size());
  local_ = std::make_unique<Group>(split_by_host(MPI_COMM_WORLD), progress);
  // A host is known by its lowest rank; hosts are counted in the order of those.
  const double leader = local_->world_ranks().front();
  std::vector<double> leaders = all_->all_gather(std::span(&leader, 1));
  std::sort(leaders.begin(), leaders.end());
  leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
  nodes_ = static_cast<int>(leaders.size());
  node_ = static_cast<int>(std::lower_bound(leaders.begin(), leaders.end(), leader) - leaders.begin());
}

// Finalizing waits for the others, who do not come while this rank unwinds from an error of its own.
World::~World() {
  if (abandoned_ || std::uncaught_exceptions() > 0) return;
  local_.reset();
  all_.reset();
  MPI_Finalize();
}

std::unique_ptr<Group> World::first(int n) const {
  return all_->split(rank() < n);
}

ClockOffset measure_clock_offset(const Group& group, int rounds) {
  MPI_Comm local = split_by_host(group.comm());
  int local_size = 0;
  TT_MPI(MPI_Comm_size(local, &local_size));
  TT_MPI(MPI_Comm_free(&local));
  // Equal on all members: with several hosts no host holds all.
  if (local_size == group.size()) return {};

  ClockOffset best;
  const MPI_Comm comm = group.comm();
  for (int peer = 1; peer < group.size(); ++peer) {
    for (int i = 0; i < rounds && (group.rank() == 0 || group.rank() == peer); ++i) {
      double theirs = 0;
      if (group.rank() == 0) {
        TT_MPI(MPI_Recv(&theirs, 1, MPI_DOUBLE, peer, 0, comm, MPI_STATUS_IGNORE));
        const double now = monotonic_seconds();
        TT_MPI(MPI_Send(&now, 1, MPI_DOUBLE, peer, 0, comm));
        continue;
      }
      const double before = monotonic_seconds();
      TT_MPI(MPI_Send(&before, 1, MPI_DOUBLE, 0, 0, comm));
      TT_MPI(MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE));
      const double after = monotonic_seconds();
      // Rank 0 read its clock somewhere between `before` and `after`: taking the middle errs by half of it at
      // most.
      const double error = (after - before) / 2;
      if (i == 0 || error < best.error_s) best = {(before + after) / 2 - theirs, error};
    }
  }
  return best;
}

}  // namespace tt
