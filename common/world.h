// The processes of the run: MPI, local ranks, hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/group.h"
#include "common/progress.h"

namespace tt {

/// What the environment says about how this process was started, before MPI is up. Pure: reads `getenv` only.
struct Launcher {
  std::string name;               // "mpirun", "srun", "pmi", or "none"
  std::optional<int> rank, size;  // as the launcher's variables say
  std::string described() const;  // "the Slurm step has 2 tasks"
};
Launcher detect_launcher();

class World {
 public:
  /// Initialises MPI (MPI_THREAD_SERIALIZED asked for; EnvironmentError naming the level when less is granted) and finds
  /// local ranks through MPI_COMM_TYPE_SHARED. A launcher that says size > 1 while MPI says 1 is an EnvironmentError
  /// with the `srun --mpi=pmix` hint: N lone ranks must never pass for one N-rank run.
  World(int& argc, char**& argv, Progress& progress);
  ~World();  // MPI_Finalize, unless abandon() was called
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Group& all() const { return *all_; }
  const Group& local() const { return *local_; }  // the ranks on this host
  int rank() const { return all_->rank(); }
  int size() const { return all_->size(); }
  int local_rank() const { return local_->rank(); }
  int node() const { return node_; }
  int nodes() const { return nodes_; }
  const std::string& host() const { return host_; }
  const Launcher& launcher() const { return launcher_; }
  /// Groups of the first n ranks (--scale).
  std::unique_ptr<Group> first(int n) const;
  /// After an error that other ranks don't share: the destructor must not communicate.
  void abandon() noexcept { abandoned_ = true; }

 private:
  std::unique_ptr<Group> all_, local_;
  Launcher launcher_;
  std::string host_;
  int node_ = 0, nodes_ = 1;
  bool abandoned_ = false;
};

/// Replaces the process by `mpirun -np N … argv` on this node (-g N > 1 and no launcher); throws EnvironmentError when
/// there is no mpirun. The ranks find N in kRelaunchedVariable: is_relaunched(N), so that their -g N is not an error.
inline constexpr const char* kRelaunchedVariable = "TT_RELAUNCHED_RANKS";
[[noreturn]] void relaunch_under_mpirun(int ranks, char** argv);
bool is_relaunched(int ranks);

/// Estimates each rank's CLOCK_MONOTONIC minus rank 0's, in seconds, by the shortest of `rounds` ping-pongs; the error
/// is at most half that shortest round trip, and that half is error_s. Collective over the group. On one host all zeros.
struct ClockOffset {
  double offset_s = 0, error_s = 0;
};
ClockOffset measure_clock_offset(const Group& group, int rounds = 20);

}  // namespace tt
