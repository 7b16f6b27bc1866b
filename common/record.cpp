#include "common/record.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "common/clock.h"
#include "common/error.h"
#include "common/record_data.h"

extern char** environ;

namespace tt {

Record::Record(std::string tool, std::vector<std::string> command) : data_(std::make_unique<Data>()) {
  data_->tool = std::move(tool);
  data_->command = std::move(command);
  data_->start_utc = utc_now();
  data_->start = monotonic_seconds();
  data_->environment = recorded_environment();
}

Record::~Record() = default;

void Record::set_settings(std::vector<std::pair<std::string, std::string>> settings) {
  std::scoped_lock lock(mutex_);
  data_->settings = std::move(settings);
}

void Record::set_world(int ranks, int nodes, const std::string& launcher) {
  std::scoped_lock lock(mutex_);
  data_->world_ranks = ranks;
  data_->world_nodes = nodes;
  data_->launcher = launcher;
}

void Record::set_ranks(std::vector<RankIdentity> ranks) {
  std::scoped_lock lock(mutex_);
  data_->ranks = std::move(ranks);
}

void Record::set_versions(Versions versions) {
  std::scoped_lock lock(mutex_);
  data_->versions = std::move(versions);
}

void Record::add_versions(const Versions& versions) {
  std::scoped_lock lock(mutex_);
  data_->versions.insert(data_->versions.end(), versions.begin(), versions.end());
}

void Record::set_injection(const std::string& text) {
  std::scoped_lock lock(mutex_);
  data_->injection = text;
}

void Record::add_row(Row row) {
  std::scoped_lock lock(mutex_);
  data_->rows.push_back(std::move(row));
}

void Record::add_note(const std::string& note) {
  std::scoped_lock lock(mutex_);
  data_->notes.push_back(note);
}

void Record::set_telemetry(int rank, const std::string& source, std::vector<TelemetrySample> series) {
  std::scoped_lock lock(mutex_);
  data_->telemetry.push_back({rank, source, std::move(series)});
}

void Record::finish(ExitCode code, const std::string& reason, std::optional<int> culprit) {
  std::scoped_lock lock(mutex_);
  if (data_->finished) return;
  data_->finished = true;
  data_->code = code;
  data_->reason = reason;
  data_->culprit = culprit;
  data_->end_utc = utc_now();
  data_->end_unix = static_cast<double>(std::time(nullptr));
}

std::vector<Row> Record::rows() const {
  std::scoped_lock lock(mutex_);
  return data_->rows;
}

std::string Record::tool() const {
  std::scoped_lock lock(mutex_);
  return data_->tool;
}

std::vector<std::pair<std::string, std::string>> Record::settings() const {
  std::scoped_lock lock(mutex_);
  return data_->settings;
}

double Record::start() const {
  return data_->start;
}

Record::Data Record::copy() const {
  std::scoped_lock lock(mutex_);
  Data data = *data_;
  if (!data.finished) {
    data.end_utc = utc_now();
    data.end_unix = static_cast<double>(std::time(nullptr));
  }
  return data;
}

// Serialising happens outside the lock: however long it takes, it holds up nobody.
std::string Record::json() const {
  return json_text(copy());
}
std::string Record::prometheus() const {
  return prometheus_text(copy());
}

namespace {

[[noreturn]] void write_failed(const std::string& path, const char* what, int error) {
  throw EnvironmentError("cannot write " + path + ": " + what + ": " + std::strerror(error));
}

/// A file that is removed again unless it was kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path)
      : path_(std::move(path)),
        descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  int descriptor() const { return descriptor_; }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  int descriptor_;
  bool kept_ = false;
};

}  // namespace

void write_atomically(const std::string& path, const std::string& text) {
  struct stat target;
  // A pipe or /dev/stdout cannot be renamed over; a folder cannot be written at all and is left to open() to
  // refuse.
  const bool special = ::stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode);
  const std::string temporary = special ? path : path + "." + std::to_string(::getpid()) + ".tmp";
  TemporaryFile file(temporary);
  if (special) file.keep();
  if (file.descriptor() < 0) write_failed(path, "open", errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file.descriptor(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) write_failed(path, "write", errno);
    done += static_cast<size_t>(n);
  }
  if (special) return;
  if (::fsync(file.descriptor()) != 0) write_failed(path, "fsync", errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) write_failed(path, "rename", errno);
  file.keep();
}

std::vector<std::pair<std::string, std::string>> recorded_environment() {
  static constexpr const char* kPrefixes[] = {"NCCL_", "OMP_",      "UCX_", "GOMP_",
                                              "KMP_",  "OPENBLAS_", "MKL_", "HWLOC_"};
  static constexpr const char* kNames[] = {
      "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",   "CUDA_DEVICE_MAX_CONNECTIONS",
      "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "NVIDIA_VISIBLE_DEVICES",
      "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID",        "SLURM_JOB_NAME",
      "SLURM_JOB_PARTITION",  "SLURM_JOB_NUM_NODES", "SLURM_NNODES",
      "SLURM_NTASKS",         "SLURM_STEP_ID",       "SLURM_STEP_NUM_TASKS",
      "SLURM_CPU_BIND",       "SLURM_CPUS_PER_TASK", "SLURM_GPUS_ON_NODE",
      "SLURM_MPI_TYPE"};
  static constexpr const char* kSecrets[] = {"KEY", "TOKEN", "SECRET", "PASSWORD"};
  std::vector<std::pair<std::string, std::string>> found;
  for (char** e = environ; e && *e; ++e) {
    const std::string entry = *e;
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    bool wanted = false;
    for (const char* prefix : kPrefixes) wanted = wanted || name.starts_with(prefix);
    for (const char* exact : kNames) wanted = wanted || name == exact;
    for (const char* secret : kSecrets) wanted = wanted && name.find(secret) == std::string::npos;
    if (wanted) found.emplace_back(name, entry.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

Versions system_versions() {
  Versions versions;
  utsname system{};
  versions.emplace_back("kernel", ::uname(&system) == 0
                                      ? std::string(system.sysname) + " " + system.release
                                      : std::string("unknown (uname: ") + std::strerror(errno) + ")");
  std::string os = "unknown (no PRETTY_NAME in /etc/os-release)";
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);)
    if (line.starts_with("PRETTY_NAME=")) {
      os = line.substr(12);
      if (os.size() >= 2 && os.front() == '"' && os.back() == '"') os = os.substr(1, os.size() - 2);
    }
  versions.emplace_back("os", os);
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  std::string mpi = "unknown (MPI_Get_library_version failed)";
  if (MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
    mpi.assign(text, static_cast<size_t>(length));
    mpi = mpi.substr(
        0, mpi.find_first_of("\n,"));  // Open MPI goes on with where it was built, MPICH with its options
  }
  versions.emplace_back("mpi", mpi);
  return versions;
}

}  // namespace tt
