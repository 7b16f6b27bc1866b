#include "common/group.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "common/error.h"

namespace tt {
namespace {

constexpr size_t kChunk = size_t{1} << 30;  // MPI counts are int

bool is_predefined(MPI_Comm comm) {
  return comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF;
}

std::vector<int> translate_to_world(MPI_Comm comm, int size) {
  MPI_Group mine = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  TT_MPI(MPI_Comm_group(comm, &mine));
  TT_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
  std::vector<int> ranks(static_cast<size_t>(size)), result(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  TT_MPI(MPI_Group_translate_ranks(mine, size, ranks.data(), world, result.data()));
  MPI_Group_free(&mine);
  MPI_Group_free(&world);
  return result;
}

int64_t reduce_one(MPI_Comm comm, int64_t value, MPI_Op op) {
  int64_t result = 0;
  TT_MPI(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, op, comm));
  return result;
}

int narrow(size_t count, const char* what) {
  if (count > static_cast<size_t>(INT32_MAX))
    throw EnvironmentError(std::string(what) + ": " + std::to_string(count) +
                           " is more than an MPI count holds");
  return static_cast<int>(count);
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw LibraryError("MPI", call, code,
                     length > 0 ? std::string(text, static_cast<size_t>(length)) : "unknown");
}

Group::Group(MPI_Comm comm, Progress& progress) : comm_(comm), progress_(&progress) {
  TT_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  TT_MPI(MPI_Comm_rank(comm_, &rank_));
  TT_MPI(MPI_Comm_size(comm_, &size_));
  world_ranks_ = translate_to_world(comm_, size_);
}

// Freeing is collective by the letter of MPI: while an exception unwinds, the others are not freeing.
void Group::release() noexcept {
  if (comm_ == MPI_COMM_NULL || is_predefined(comm_) || std::uncaught_exceptions() > 0) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm_);
  comm_ = MPI_COMM_NULL;
}

Group::~Group() {
  release();
}

Group::Group(Group&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      progress_(other.progress_),
      rank_(other.rank_),
      size_(other.size_),
      world_ranks_(std::move(other.world_ranks_)) {}

Group& Group::operator=(Group&& other) noexcept {
  if (this == &other) return *this;
  release();
  comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
  progress_ = other.progress_;
  rank_ = other.rank_;
  size_ = other.size_;
  world_ranks_ = std::move(other.world_ranks_);
  return *this;
}

std::unique_ptr<Group> Group::split(bool in) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  MPI_Comm part = MPI_COMM_NULL;
  TT_MPI(MPI_Comm_split(comm_, in ? 0 : MPI_UNDEFINED, rank_, &part));
  return part == MPI_COMM_NULL ? nullptr : std::make_unique<Group>(part, *progress_);
}

void Group::barrier() const {
  ActivityScope waiting(*progress_, Activity::waiting);
  TT_MPI(MPI_Barrier(comm_));
}

void Group::idle_barrier() const {
  ActivityScope waiting(*progress_, Activity::waiting);
  MPI_Request request = MPI_REQUEST_NULL;
  TT_MPI(MPI_Ibarrier(comm_, &request));
  for (int done = 0;;) {
    TT_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Group::all_max(std::span<double> values) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  TT_MPI(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow(values.size(), "all_max"), MPI_DOUBLE, MPI_MAX,
                       comm_));
}

void Group::all_sum(std::span<double> values) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  TT_MPI(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow(values.size(), "all_sum"), MPI_DOUBLE, MPI_SUM,
                       comm_));
}

int64_t Group::all_max(int64_t value) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  return reduce_one(comm_, value, MPI_MAX);
}

int64_t Group::all_min(int64_t value) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  return reduce_one(comm_, value, MPI_MIN);
}

int64_t Group::all_sum(int64_t value) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  return reduce_one(comm_, value, MPI_SUM);
}

std::vector<double> Group::all_gather(std::span<const double> values) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  const size_t total = values.size() * static_cast<size_t>(size_);
  const int count = narrow(values.size(), "all_gather");
  std::vector<double> all(total);
  TT_MPI(MPI_Allgather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, comm_));
  return all;
}

std::vector<std::string> Group::all_gather(const std::string& text) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  const int length = narrow(text.size(), "all_gather");
  std::vector<int> lengths(static_cast<size_t>(size_)), starts(static_cast<size_t>(size_));
  TT_MPI(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_));
  size_t total = 0;
  for (size_t r = 0; r < lengths.size(); ++r) {
    starts[r] = narrow(total, "all_gather");
    total += static_cast<size_t>(lengths[r]);
  }
  narrow(total, "all_gather");
  std::string joined(total, '\0');
  TT_MPI(MPI_Allgatherv(text.data(), length, MPI_CHAR, joined.data(), lengths.data(), starts.data(), MPI_CHAR,
                        comm_));
  std::vector<std::string> texts;
  for (size_t r = 0; r < lengths.size(); ++r)
    texts.push_back(joined.substr(static_cast<size_t>(starts[r]), static_cast<size_t>(lengths[r])));
  return texts;
}

std::string Group::broadcast(const std::string& text, int root) const {
  uint64_t length = text.size();
  broadcast_bytes(&length, sizeof length, root);
  std::string result = rank_ == root ? text : std::string(length, '\0');
  broadcast_bytes(result.data(), length, root);
  return result;
}

void Group::broadcast_bytes(void* data, size_t bytes, int root) const {
  ActivityScope waiting(*progress_, Activity::waiting);
  for (size_t done = 0; done < bytes; done += kChunk) {
    const int count = static_cast<int>(std::min(kChunk, bytes - done));
    TT_MPI(MPI_Bcast(static_cast<char*>(data) + done, count, MPI_BYTE, root, comm_));
  }
}

}  // namespace tt
