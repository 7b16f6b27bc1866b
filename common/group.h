// A set of ranks that act together: the world, or a part of it (--scale). Thin values over MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

#include "common/progress.h"

namespace tt {

/// Turns an MPI return code that is not MPI_SUCCESS into a LibraryError with MPI's own text.
void check_mpi(int code, const char* call);
#define TT_MPI(call) ::tt::check_mpi((call), #call)

class Group {
 public:
  /// Takes ownership of `comm` unless it is MPI_COMM_WORLD or MPI_COMM_SELF. `progress` outlives the group; every
  /// blocking call below notes itself there as waiting, so that the watchdog can tell who waits and for what.
  Group(MPI_Comm comm, Progress& progress);
  ~Group();
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }
  /// World rank of each member, by rank in the group.
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  /// The members for which `in` is true, as a group of their own; for the others an empty optional-like null.
  /// Collective over all members.
  std::unique_ptr<Group> split(bool in) const;

  void barrier() const;
  /// A barrier whose early ranks sleep (woken each millisecond) instead of keeping a core busy that others measure with.
  void idle_barrier() const;
  /// Element-wise maximum / sum over members; every member gets it.
  void all_max(std::span<double> values) const;
  void all_sum(std::span<double> values) const;
  int64_t all_max(int64_t value) const;
  int64_t all_min(int64_t value) const;
  int64_t all_sum(int64_t value) const;
  /// Every member's `values` (same length everywhere), concatenated by rank; every member gets it.
  std::vector<double> all_gather(std::span<const double> values) const;
  std::vector<std::string> all_gather(const std::string& text) const;
  std::string broadcast(const std::string& text, int root) const;
  void broadcast_bytes(void* data, size_t bytes, int root) const;

 private:
  void release() noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
  Progress* progress_ = nullptr;
  int rank_ = 0, size_ = 1;
  std::vector<int> world_ranks_;
};

}  // namespace tt
