#include "src/llm/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* call, int error) {
  throw EnvironmentError("cannot write " + path + ": " + call + ": " + std::strerror(error));
}

/// Beside the target, and nobody else's.
std::string temporary_of(const std::string& path) {
  return path + "." + std::to_string(::getpid()) + ".tmp";
}

/// A path without a slash at its end.
std::string plain(const std::string& path) {
  std::string text = path;
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

/// What a rename has done is on the disk once its folder is.
void sync_parent(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  const int descriptor = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may be written but not read
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Why no folder can be put at `path`; "" if one can.
std::string obstacle(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return "";
  if (!fs::is_directory(status)) return "is there and no folder";
  const bool empty = fs::is_empty(path, error);
  if (error) return "cannot be read: " + error.message();
  return empty ? "" : "is there and not empty";
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_(temporary_of(path_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(path_, "open", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "write", errno);
    from += n;
    bytes -= static_cast<size_t>(n);
  }
}

void OutputFile::publish() {
  if (::fsync(descriptor_) != 0) fail(path_, "fsync", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "rename", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail(path_, "close", errno);
  sync_parent(path_);
}

OutputFolder::OutputFolder(const std::string& path) : path_(plain(path)), temporary_(temporary_of(path_)) {
  const std::string why = obstacle(path_);
  if (!why.empty()) throw EnvironmentError("cannot write " + path_ + ": it " + why);
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);  // of a process that had this number and was killed
  if (::mkdir(temporary_.c_str(), 0777) != 0) fail(path_, "mkdir", errno);
}

OutputFolder::~OutputFolder() {
  if (published_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

std::string OutputFolder::path_of(const std::string& name) const {
  return temporary_ + "/" + name;
}

void OutputFolder::publish() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "rename", errno);
  published_ = true;
  sync_parent(path_);
}

void check_output_folder(const std::string& option, const std::string& path) {
  const std::string where = option + ": " + in_quotes(path);
  if (path.empty()) throw UsageError(where + " is no folder");
  const std::string why = obstacle(plain(path));
  if (!why.empty()) throw UsageError(where + " " + why + "; accepted: a new or empty folder");
  try {
    OutputFolder trial(path);
  } catch (const EnvironmentError& e) {
    throw UsageError(option + ": " + e.what());
  }
}

}  // namespace tt
